package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/outfile"
)

// Output is a place on this machine that an image is written to.
type Output struct {
	Kind string // "oci", "oci-archive" or "docker-archive"
	Path string
}

func (o Output) String() string { return o.Kind + ":" + o.Path }

// ParseOutputs parses oci:DIR, oci-archive:FILE and docker-archive:FILE. Unlike [ParseLocal] it
// accepts no tag, because tags belong to the image. Two outputs with one path are an error.
func ParseOutputs(texts []string) ([]Output, error) {
	var all []Output
	for _, text := range texts {
		o, err := ParseOutput(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(
			all,
			func(other Output) bool { return filepath.Clean(other.Path) == filepath.Clean(o.Path) },
		) {
			return nil, fmt.Errorf("%s: another output has the same path: give each its own", o)
		}
		all = append(all, o)
	}
	return all, nil
}

// ParseOutput parses one output. A colon in the path is part of it as far as the path exists;
// behind that it is taken for a tag, which is refused.
func ParseOutput(text string) (Output, error) {
	kind, path, _ := strings.Cut(text, ":")
	o := Output{Kind: kind, Path: path}
	if !slices.Contains(kinds, kind) || path == "" {
		return o, fmt.Errorf(
			"%q is no output: give oci:DIR, oci-archive:FILE or docker-archive:FILE", text,
		)
	}
	if strings.ContainsRune(path, 0) {
		return o, fmt.Errorf("%q has a NUL byte in its path", text)
	}
	_, rest := existing(filepath.Clean(path))
	name, tag, ok := strings.Cut(rest, ":")
	if ok {
		return o, fmt.Errorf(
			"%s: %q is taken for a tag, but images get theirs from driver and system: give %s:%s",
			o, tag, kind, strings.TrimSuffix(path, rest)+name,
		)
	}
	return o, nil
}

// existing splits a path into the longest part that exists and the rest of the text.
func existing(path string) (there, rest string) {
	there = path
	_, err := os.Lstat(there)
	for err != nil && there != "." && there != "/" {
		there = filepath.Dir(there)
		_, err = os.Lstat(there)
	}
	return there, strings.TrimPrefix(path, there)
}

// Check says why nothing can be written there, before the work on the image begins. It creates a
// temporary file and removes it.
func (o Output) Check() (err error) {
	defer failure.Wrap(&err, "%s", o)
	if o.Kind != "oci" {
		return outfile.Check(o.Path)
	}
	there, _ := existing(filepath.Join(o.Path, "blobs", "sha256"))
	err = outfile.CheckFolder(there)
	if err != nil {
		return err
	}
	_, err = os.Lstat(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is created
	}
	for _, name := range []string{"oci-layout", "index.json"} {
		err := outfile.CheckReplace(filepath.Join(o.Path, name))
		if err != nil {
			return err
		}
	}
	_, err = readGraph(o.Path)
	return err
}

// CheckContent refuses what the format cannot hold: tags is the number of images, archs that of the
// architectures of the first one.
func (o Output) CheckContent(tags, archs int, zstd bool) error {
	switch {
	case o.Kind != "oci" && tags > 1:
		return fmt.Errorf(
			"%s: an archive holds one image, %d are to be built: use oci:DIR",
			o,
			tags,
		)
	case o.Kind == "docker-archive" && archs > 1:
		return fmt.Errorf(
			"%s: docker load knows one architecture: use oci:DIR or oci-archive:FILE",
			o,
		)
	case o.Kind == "docker-archive" && zstd:
		return fmt.Errorf("%s: docker load cannot read zstd layers: use --compression gzip", o)
	}
	return nil
}

// Write writes an artifact under its tag, with its attachments; a docker-archive can hold none. It
// returns the artifact's reference without the digest; in a docker-archive that is repository:tag.
func (o Output) Write(
	ctx context.Context,
	repository, tag string,
	t Artifact,
	attachments ...Attachment,
) (ref string, err error) {
	repository = cmp.Or(repository, "driver")
	ref = o.String() + ":" + tag
	switch o.Kind {
	case "oci":
		return ref, WriteLayout(ctx, o.Path, tag, t, attachments...)
	case "oci-archive":
		return ref, WriteOCIArchive(ctx, o.Path, repository, tag, t, attachments...)
	}
	if len(attachments) > 0 {
		return "", fmt.Errorf(
			"write %s: %w: it has no place for signatures, SBOMs and the like; write an oci-archive",
			o, ErrNotForDocker,
		)
	}
	named := repository + ":" + tag
	return o.String() + ":" + named, WriteDockerArchive(ctx, o.Path, named, t)
}
