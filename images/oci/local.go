package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Annotations that hold the name of an entry in a layout's index.
const (
	refNameAnnotation        = "org.opencontainers.image.ref.name"
	containerdNameAnnotation = "io.containerd.image.name" // docker save and ctr write it beside the one above
)

// LocalRef is a reference to an image on this machine.
type LocalRef struct {
	text string // as written
	kind string // "oci", "oci-archive" or "docker-archive"
	Path string
	tag  string
}

// IsLocal reports whether a reference names an image on this machine and not in a registry.
func IsLocal(ref string) bool {
	_, ok := ParseLocal(ref)
	return ok
}

// ParseLocal parses oci:DIR[:TAG], oci-archive:FILE[:TAG] and docker-archive:FILE[:TAG]. It returns false for
// any other text.
func ParseLocal(text string) (LocalRef, bool) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || kind != "oci" && kind != "oci-archive" && kind != "docker-archive" {
		return LocalRef{}, false
	}
	l := LocalRef{text: text, kind: kind, Path: rest}
	// Paths and tags may both have colons, so the path that exists decides.
	for end := len(rest); end > 0; end = strings.LastIndexByte(rest[:end], ':') {
		if _, err := os.Stat(rest[:end]); err == nil {
			l.Path, l.tag = rest[:end], strings.TrimPrefix(rest[end:], ":")
			break
		}
	}
	return l, true
}

// Named returns the reference to the image of this machine that a person meant by a name alone: "oci:dist:TAG"
// for "dist:TAG", where there is a layout or an archive of that name. Any other text stays as it is, and so does
// one that begins with the host of a registry, in whose place a folder of the same name must not come.
func Named(text string) string {
	host, _, path := strings.Cut(text, "/")
	if IsLocal(text) || path && strings.Trim(host, ".") != "" && (host == "localhost" || strings.ContainsAny(host, ".:")) {
		return text
	}
	for _, kind := range []string{"oci", "oci-archive", "docker-archive"} {
		if l, _ := ParseLocal(kind + ":" + text); l.Check() == nil {
			return l.text
		}
	}
	return text
}

// Tag is the tag in the reference, "" if it has none.
func (l LocalRef) Tag() string { return l.tag }

// Check says why the path holds no image, by its index alone.
func (l LocalRef) Check() error {
	var err error
	switch l.kind {
	case "oci":
		var index []byte
		if index, err = bounded.File(filepath.Join(l.Path, "index.json"), MaxManifest); err != nil {
			err = fmt.Errorf("not an OCI layout: %w", err)
		} else if err = json.Unmarshal(index, new(v1.IndexManifest)); err != nil {
			err = fmt.Errorf("index.json is malformed: %w", err)
		}
	default:
		err = l.checkArchive()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.text, err)
	}
	return nil
}

func (l LocalRef) checkArchive() error {
	if info, err := os.Stat(l.Path); err != nil {
		return err
	} else if !info.Mode().IsRegular() { // members are read in place
		return fmt.Errorf("%s is no regular file", l.Path)
	}
	a, err := openArchive(l.Path)
	if err != nil {
		return err
	}
	first := map[string]string{"oci-archive": "index.json", "docker-archive": "manifest.json"}[l.kind]
	if err := a.Has(first); err != nil {
		return fmt.Errorf("it is no %s: %w", l.kind, err)
	}
	return nil
}

// Image reads the image for linux/arch. What an archive holds is copied into the store; a layout is read
// where it is.
func (l LocalRef) Image(ctx context.Context, store *fetch.Store, arch string) (*Image, v1.Hash, error) {
	img, digest, err := l.Look(ctx, store, arch)
	if err == nil && l.kind == "oci-archive" {
		if err := unpackLayers(ctx, img); err != nil {
			return nil, v1.Hash{}, fmt.Errorf("read %s: %w", l.text, err)
		}
		img.blobs = StoreBlobs(store)
	}
	return img, digest, err
}

// Look reads manifest and config of the image for linux/arch, and no layer of a layout or an OCI archive.
// The manifest of a Docker archive has the digests of its layers, so these are copied into the store.
func (l LocalRef) Look(ctx context.Context, store *fetch.Store, arch string) (*Image, v1.Hash, error) {
	m, b, err := l.open(ctx, store, arch)
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("read %s: %w", l.text, err)
	}
	img, err := NewImage(m.Raw, b)
	if err != nil {
		return nil, v1.Hash{}, fmt.Errorf("read %s: %w", l.text, err)
	}
	if err := CheckPlatform(l.text, arch, img); err != nil {
		return nil, v1.Hash{}, err
	}
	return img, m.Digest, nil
}

// ManifestDigest is the digest of the manifest for linux/arch, or of the index itself when arch is empty.
func (l LocalRef) ManifestDigest(ctx context.Context, store *fetch.Store, arch string) (v1.Hash, error) {
	m, _, err := l.open(ctx, store, arch)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("read %s: %w", l.text, err)
	}
	return m.Digest, nil
}

// open returns the manifest for linux/arch and the blobs that it refers to.
func (l LocalRef) open(ctx context.Context, store *fetch.Store, arch string) (Manifest, Blobs, error) {
	if l.kind == "docker-archive" {
		a, err := openArchive(l.Path)
		if err != nil {
			return Manifest{}, Blobs{}, err
		}
		m, err := a.docker(ctx, store, l.tag)
		return m, StoreBlobs(store), err
	}
	index, b, err := l.index(ctx, store)
	if err != nil {
		return Manifest{}, Blobs{}, err
	}
	m, err := chooseEntry(l, arch, index.Manifests, b)
	return m, b, err
}

// index reads the index of a layout or of an OCI archive.
func (l LocalRef) index(ctx context.Context, store *fetch.Store) (index v1.IndexManifest, b Blobs, err error) {
	var raw []byte
	if l.kind == "oci" {
		b = layoutBlobs(l.Path)
		if raw, err = bounded.File(filepath.Join(l.Path, "index.json"), MaxManifest); err != nil {
			return index, b, fmt.Errorf("not an OCI layout: %w", err)
		}
	} else {
		a, err := openArchive(l.Path)
		if err != nil {
			return index, b, err
		}
		b = a.blobs(ctx, store)
		if raw, err = a.Read("index.json", MaxManifest); err != nil {
			return index, b, fmt.Errorf("not an OCI archive: %w", err)
		}
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return index, b, fmt.Errorf("index.json is malformed: %w", err)
	}
	return index, b, nil
}

func layoutBlobs(dir string) Blobs {
	return Blobs{where: dir, open: func(d v1.Descriptor) (io.ReadCloser, error) {
		h := d.Digest
		if h.Algorithm != "sha256" {
			return nil, fmt.Errorf("%s: only sha256 is supported", h)
		}
		return bounded.Open(filepath.Join(dir, "blobs", "sha256", h.Hex))
	}}
}

// chooseEntry returns the manifest for linux/arch of the entry of a layout's index that the reference means.
func chooseEntry(l LocalRef, arch string, entries []v1.Descriptor, b Blobs) (Manifest, error) {
	d, err := entry(l, arch, entries)
	if err != nil {
		return Manifest{}, err
	}
	load := func(d v1.Descriptor) (Manifest, error) {
		raw, err := b.Document(d.Digest, MaxManifest)
		if err == nil {
			err = b.checkEntry(d, raw)
		}
		return Manifest{raw, d.Digest}, err
	}
	top, err := load(d)
	if err != nil {
		return Manifest{}, err
	}
	return ChooseManifest(l.text, arch, top, load)
}

// entry selects an entry by tag; without a tag, the only entry, or the only one that can be for linux/arch.
// What belongs to images does not count then, unless there is nothing else.
func entry(l LocalRef, arch string, entries []v1.Descriptor) (v1.Descriptor, error) {
	if l.tag == "" {
		entries = imageEntries(entries)
	}
	var match []v1.Descriptor
	for _, d := range entries {
		p := d.Platform
		switch {
		case l.tag != "" && !hasTag(d, l.tag):
		case l.tag == "" && len(entries) > 1 && arch != "" && p != nil && (p.OS != "linux" || p.Architecture != arch):
		default:
			match = append(match, d)
		}
	}
	if len(match) == 1 {
		return match[0], nil
	}
	names := []string{}
	for _, d := range entries {
		if n := d.Annotations[refNameAnnotation]; n != "" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	switch {
	case len(match) > 1 && l.tag == "":
		return v1.Descriptor{}, fmt.Errorf("it holds several images: name one as %s:%s:TAG, of: %s", l.kind, l.Path, strings.Join(names, ", "))
	case len(match) > 1:
		return v1.Descriptor{}, fmt.Errorf("it holds %d images named %s", len(match), l.tag)
	case l.tag != "":
		return v1.Descriptor{}, fmt.Errorf("it holds no image named %s, only: %s: %w", l.tag, strings.Join(names, ", "), fs.ErrNotExist)
	}
	return v1.Descriptor{}, fmt.Errorf("it holds no image for linux/%s: %w", arch, fs.ErrNotExist)
}

func hasTag(d v1.Descriptor, tag string) bool {
	ref, full := d.Annotations[refNameAnnotation], d.Annotations[containerdNameAnnotation]
	return tag == ref || tag == full || strings.HasSuffix(full, ":"+tag)
}

// OpenLocal opens an artifact on this machine: an image, a whole index or any other (oci:DIR[:TAG],
// oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]) for a push. Without a tag the source must have exactly
// one entry. Content is verified when it is read.
func OpenLocal(ctx context.Context, store *fetch.Store, ref string) (Artifact, error) {
	l, ok := ParseLocal(ref)
	if !ok {
		return nil, fmt.Errorf("read %s: not an image on this machine: give oci:DIR, oci-archive:FILE or docker-archive:FILE", ref)
	}
	m, b, err := l.open(ctx, store, "")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	t, err := NewArtifact(m.Raw, b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return t, nil
}
