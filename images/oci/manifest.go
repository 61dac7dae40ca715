package oci

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/strictjson"
)

// maxDepth bounds how deep indexes nest. In practice at most one index is inside another.
const maxDepth = 4

// PlatformError says that an image does not exist for the requested architecture.
type PlatformError struct {
	Ref  string
	Want string   // "linux/arm64"
	Have []string // sorted; the platforms that the image exists for
}

func (e *PlatformError) Error() string {
	return fmt.Sprintf(
		"%s is not there for %s; it is there for: %s",
		e.Ref,
		e.Want,
		strings.Join(e.Have, ", "),
	)
}

// FailureKind says what the command makes of it.
func (*PlatformError) FailureKind() failure.Kind { return failure.Network }

// document is what a manifest or an index says. One of Config and Manifests is nil.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     types.MediaType   `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Annotations   map[string]string `json:"annotations"`
	Config        *v1.Descriptor    `json:"config"`
	Layers        []v1.Descriptor   `json:"layers"`
	Manifests     *[]v1.Descriptor  `json:"manifests"`
	Subject       v1.Descriptor     `json:"subject"`
}

// malformed is an error about the content of a document.
func malformed(format string, args ...any) error {
	return failure.Errorf(failure.Content, format, args...)
}

// parse reads a manifest or an index, and checks what it names. Content decides which of the two it
// is, because a server or a layout may not state the type. Only documents of OCI may omit theirs.
func parse(raw []byte) (doc document, err error) {
	doc, err = strictjson.Decode[document](raw)
	if err != nil {
		return doc, fmt.Errorf("the manifest is malformed: %w", err)
	}
	switch {
	case doc.SchemaVersion == 1:
		return doc, malformed(
			"the manifest has the format of 2015 (schema 1), which is not supported: push the image again with a current tool",
		)
	case doc.SchemaVersion != 2:
		return doc, malformed(
			"the manifest is malformed: its schemaVersion is %d, want 2", doc.SchemaVersion,
		)
	case (doc.Config == nil) == (doc.Manifests == nil):
		return doc, malformed("the manifest is malformed: neither an image nor an index")
	}
	named := doc.Layers
	if doc.Manifests != nil {
		named = append(named, *doc.Manifests...)
		doc.MediaType = cmp.Or(doc.MediaType, types.OCIImageIndex)
	} else {
		named = append(named, *doc.Config)
		doc.MediaType = cmp.Or(doc.MediaType, types.OCIManifestSchema1)
	}
	for _, d := range named {
		err := checkDescriptor(d)
		if err != nil {
			return doc, fmt.Errorf("the manifest is malformed: %w", err)
		}
	}
	return doc, nil
}

// ChooseManifest follows indexes down to the manifest for linux/arch. load returns a manifest by
// its digest. With an empty arch, choose returns top.
func ChooseManifest(
	ref, arch string,
	top []byte,
	load func(v1.Descriptor) ([]byte, error),
) (_ []byte, err error) {
	defer func() {
		_, platform := errors.AsType[*PlatformError](err) // it names ref
		if !platform {
			failure.Wrap(&err, "%s", ref)
		}
	}()
	for range maxDepth {
		doc, err := parse(top)
		if err != nil {
			return nil, err
		}
		if doc.Manifests == nil || arch == "" {
			return top, nil
		}
		next, err := pick(ref, arch, *doc.Manifests)
		if err != nil {
			return nil, err
		}
		top, err = load(next)
		if err != nil {
			return nil, err
		}
		err = checkSize(next, top)
		if err != nil {
			return nil, err
		}
	}
	return nil, malformed("indexes within indexes, more than %d deep", maxDepth)
}

// pick returns the entry for linux/arch. Of several variants it takes the most basic one, because
// every machine runs it.
func pick(ref, arch string, entries []v1.Descriptor) (v1.Descriptor, error) {
	var match, nested []v1.Descriptor
	var have []string
	for _, d := range entries {
		switch {
		case d.MediaType.IsIndex():
			nested = append(nested, d)
		case d.Platform == nil || d.Platform.OS == "unknown":
			// Attestations and the like. An image without a platform looks the same.
		default:
			have = append(have, d.Platform.String())
			if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
				match = append(match, d)
			}
		}
	}
	if len(match) == 0 && len(have) == 0 && len(nested) == 1 {
		return nested[0], nil
	}
	if len(match) == 0 {
		slices.Sort(have)
		return v1.Descriptor{}, &PlatformError{
			Ref:  ref,
			Want: "linux/" + arch,
			Have: slices.Compact(have),
		}
	}
	for _, variant := range []string{"", "v8", "v1"} {
		for _, d := range match {
			if d.Platform.Variant == variant {
				return d, nil
			}
		}
	}
	return match[0], nil
}

// ErrDescriptor says that what names a document states another size or platform than the document
// has.
var ErrDescriptor = failure.New(failure.Content, "its descriptor does not describe it")

// checkSize compares a descriptor with its document. Container runtimes refuse one of another size.
func checkSize(d v1.Descriptor, raw []byte) error {
	if d.Size != int64(len(raw)) {
		return fmt.Errorf(
			"%s: %w: it has %d bytes, the descriptor says %d",
			d.Digest,
			ErrDescriptor,
			len(raw),
			d.Size,
		)
	}
	return nil
}

// named returns the document that an index names. An index on this machine must state the platform
// of an image as the image's config does.
func (b Blobs) named(d v1.Descriptor) ([]byte, error) {
	raw, err := b.Document(d.Digest, MaxManifest)
	if err != nil {
		return nil, err
	}
	err = checkSize(d, raw)
	if err != nil || b.manifest != nil || d.Platform == nil || d.Platform.OS == "unknown" {
		return raw, err
	}
	img, err := NewImage(raw, b)
	if err != nil {
		return raw, nil //nolint:nilerr // an index or an artifact has no platform; a reader of the image says what is wrong with it
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	want := d.Platform
	is := v1.Platform{
		OS:           cmp.Or(cf.OS, want.OS),
		Architecture: cf.Architecture,
		Variant:      cmp.Or(cf.Variant, want.Variant),
	}
	if is.OS != want.OS || is.Architecture != want.Architecture ||
		want.Variant != "" && is.Variant != want.Variant {
		return nil, fmt.Errorf(
			"%s: %w: it is for %s, the descriptor says %s", d.Digest, ErrDescriptor, is, want,
		)
	}
	return raw, nil
}

// CheckPlatform refuses a single image for another architecture.
func CheckPlatform(ref, arch string, img v1.Image) error {
	cf, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("%s: read the image config: %w", ref, err)
	}
	p := v1.Platform{OS: cf.OS, Architecture: cf.Architecture}
	if (p.OS == "" || p.OS == "linux") && p.Architecture == arch {
		return nil
	}
	return &PlatformError{Ref: ref, Want: "linux/" + arch, Have: []string{p.String()}}
}

// ParseManifest parses an image manifest and checks its descriptors: container runtimes read only
// configs and layers of the types of images. Content in the manifest itself is not needed, and some
// programs take it in place of the blob.
func ParseManifest(raw []byte) (*v1.Manifest, error) {
	m, err := parseGeneric(raw)
	if err != nil {
		return nil, err
	}
	for _, d := range m.Layers {
		if !d.MediaType.IsLayer() || !d.MediaType.IsDistributable() {
			return nil, malformed(
				"the image manifest has a layer of type %q: not a file system layer that can be copied",
				d.MediaType,
			)
		}
	}
	if !m.Config.MediaType.IsConfig() {
		return nil, malformed(
			"the image manifest has a config of type %q: not that of a container image",
			m.Config.MediaType,
		)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Data != nil {
			return nil, malformed(
				"the image manifest has the content of %s in itself (data): push the image again with another tool",
				d.Digest,
			)
		}
	}
	return m, nil
}

// parseGeneric parses a manifest of anything, and checks its descriptors.
func parseGeneric(raw []byte) (*v1.Manifest, error) {
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if doc.Manifests != nil {
		return nil, malformed("it is an index, and not the manifest of one thing")
	}
	m, err := strictjson.Decode[v1.Manifest](raw)
	if err != nil {
		return nil, fmt.Errorf("the manifest is malformed: %w", err)
	}
	return &m, nil
}

func checkDescriptor(d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" || d.Size < 0 {
		return malformed("blob %q of %d bytes (only sha256 is supported)", d.Digest, d.Size)
	}
	if d.Data != nil && (int64(len(d.Data)) != d.Size || HashOf(d.Data) != d.Digest) {
		return malformed("blob %s has other content in its descriptor (data)", d.Digest)
	}
	return nil
}
