package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/strictjson"
)

// Annotations that hold the name of an entry in a layout's index.
const (
	// skopeo, regctl, umoci and others read it
	RefNameAnnotation = "org.opencontainers.image.ref.name"
	// docker save, ctr and k3s have it beside the one above
	ContainerdNameAnnotation = "io.containerd.image.name"
)

// absentError says what is not where a reference says. It is fs.ErrNotExist and a mistake of the
// user.
type absentError string

func (e absentError) Error() string { return string(e) }

// Is makes errors.Is(err, fs.ErrNotExist) true.
func (absentError) Is(target error) bool { return target == fs.ErrNotExist }

// FailureKind is that of a name that there is not.
func (absentError) FailureKind() failure.Kind { return failure.Usage }

func absentf(format string, args ...any) error { return absentError(fmt.Sprintf(format, args...)) }

// kinds of images on this machine, as references and outputs name them.
var kinds = []string{"oci", "oci-archive", "docker-archive"}

// LocalRef is a reference to an image on this machine.
type LocalRef struct {
	text string // as written
	kind string // one of kinds
	Path string
	tag  string
}

// IsLocal reports whether a reference names an image on this machine and not in a registry.
func IsLocal(ref string) bool {
	_, ok := ParseLocal(ref)
	return ok
}

// ParseLocal parses oci:DIR[:TAG], oci-archive:FILE[:TAG] and docker-archive:FILE[:TAG]. It returns
// false for any other text.
func ParseLocal(text string) (LocalRef, bool) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || !slices.Contains(kinds, kind) {
		return LocalRef{}, false
	}
	l := LocalRef{text: text, kind: kind, Path: rest}
	// Paths and tags may both have colons, so the path that exists decides.
	for end := len(rest); end > 0; end = strings.LastIndexByte(rest[:end], ':') {
		if _, err := os.Stat(rest[:end]); err == nil {
			l.Path = rest[:end]
			l.tag = strings.TrimPrefix(rest[end:], ":")
			break
		}
	}
	return l, true
}

// Named returns the reference to the image of this machine that a person meant by a name alone:
// "oci:dist:TAG" for "dist:TAG", where there is a layout or an archive of that name, whatever is
// wrong with it. Any other text stays as it is, and so does one that begins with the host of a
// registry, in whose place a folder of the same name must not come.
func Named(text string) string {
	host, _, path := strings.Cut(text, "/")
	isHost := path && strings.Trim(host, ".") != "" &&
		(host == "localhost" || strings.ContainsAny(host, ".:"))
	if IsLocal(text) || isHost {
		return text
	}
	for _, kind := range kinds {
		l, _ := ParseLocal(kind + ":" + text)
		err := l.Check()
		if err != nil && failure.KindOf(err) != failure.Content {
			continue
		}
		return l.text
	}
	return text
}

// Tag is the tag in the reference, "" if it has none.
func (l LocalRef) Tag() string { return l.tag }

func (l LocalRef) failed(err error) error {
	_, missing := os.Lstat(l.Path)
	if !errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", l.text, err)
	}
	name, _, _ := strings.Cut(l.Path, ":")
	return absentf(
		"read %s: there is no %s here; a build writes it with --output %s:%s: run this in the folder of that build, or give the path",
		l.text, name, l.kind, name,
	)
}

// Check says why the path holds no image, by its index alone.
func (l LocalRef) Check() (err error) {
	if l.kind == "docker-archive" {
		_, _, err = l.dockerEntries()
	} else {
		_, _, err = l.index()
	}
	if err != nil {
		return l.failed(err)
	}
	return nil
}

// Image reads the image for linux/arch: its manifest and config. A layer is read where it is when
// it is opened, and verified then.
func (l LocalRef) Image(ctx context.Context, arch string) (v1.Image, v1.Hash, error) {
	raw, b, err := l.open(ctx, arch)
	if err != nil {
		return nil, v1.Hash{}, l.failed(err)
	}
	img, err := NewImage(raw, b)
	if err != nil {
		return nil, v1.Hash{}, l.failed(err)
	}
	return img, HashOf(raw), CheckPlatform(l.text, arch, img)
}

// Artifact opens what a reference names: an image, a whole index or any other. Without a tag the
// source must have exactly one entry.
func (l LocalRef) Artifact(ctx context.Context) (Artifact, error) {
	raw, b, err := l.open(ctx, "")
	if err != nil {
		return nil, l.failed(err)
	}
	t, err := NewArtifact(raw, b)
	if err != nil {
		return nil, l.failed(err)
	}
	return t, nil
}

// open returns the manifest for linux/arch and the blobs that it refers to.
func (l LocalRef) open(ctx context.Context, arch string) ([]byte, Blobs, error) {
	if l.kind == "docker-archive" {
		return l.docker(ctx)
	}
	index, b, err := l.index()
	if err != nil {
		return nil, Blobs{}, err
	}
	raw, err := l.choose(arch, index.Manifests, b)
	return raw, b, err
}

// index reads the index of a layout or of an OCI archive.
func (l LocalRef) index() (index v1.IndexManifest, b Blobs, err error) {
	f := folder(l.Path)
	what := "an OCI layout"
	if l.kind == "oci-archive" {
		what = "an OCI archive"
		f, err = openArchive(l.Path)
		if err != nil {
			return index, b, err
		}
	}
	raw, err := f.read("index.json", MaxManifest)
	if err != nil {
		return index, b, fmt.Errorf("not %s: %w", what, err)
	}
	index, err = strictjson.Decode[v1.IndexManifest](raw)
	if err != nil {
		return index, b, fmt.Errorf("index.json is malformed: %w", err)
	}
	return index, f.blobs(l.Path), nil
}

// files opens the files of a folder, or the members of an archive, by their names.
type files func(name string) (io.ReadCloser, error)

func folder(dir string) files {
	return func(name string) (io.ReadCloser, error) { return bounded.Open(filepath.Join(dir, name)) }
}

func (f files) read(name string, limit int64) ([]byte, error) {
	r, err := f(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return bounded.Read(r, limit)
}

// required opens files that the image itself names: one that is missing is missing content.
func (f files) required() files {
	return func(name string) (io.ReadCloser, error) {
		r, err := f(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, failure.Errorf(failure.Content, "it is not whole: %w: copy it again", err)
		}
		return r, err
	}
}

// blobs returns the blobs of a layout.
func (f files) blobs(where string) Blobs {
	f = f.required()
	return Blobs{where: where, open: func(d v1.Descriptor) (io.ReadCloser, error) {
		if err := checkDescriptor(d); err != nil {
			return nil, err
		}
		return f("blobs/sha256/" + d.Digest.Hex)
	}}
}
