package oci

import (
	"cmp"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Annotations of the entries of attachments in the index of a layout. They have no
// org.opencontainers.image.ref.name, because containerd would take a named entry for an image.
const (
	TagAnnotation        = "io.github.driver-container.tag"        // of .sig and .att
	RepositoryAnnotation = "io.github.driver-container.repository" // where a layout has attachments of several
	SubjectAnnotation    = "io.containerd.manifest.subject"        // digest of the subject; containerd 2 reads it
)

// Entry returns the descriptor of an attachment for the index of a layout.
func (a Attachment) Entry() v1.Descriptor {
	d := a.Manifest.Desc
	d.Platform, d.Annotations = nil, map[string]string{SubjectAnnotation: a.Subject.String()}
	if a.Tag != "" {
		d.Annotations[TagAnnotation] = a.Tag
	}
	return d
}

// withAttachments adds entries for attachments to the index of a layout, whose blobs are b. One with a tag
// extends that of the layout. It returns the attachments to write. Their entries come last, sorted by digest.
func withAttachments(index *v1.IndexManifest, b Blobs, all []Attachment) (*v1.IndexManifest, []Attachment, error) {
	write, err := mergeTags(all)
	if err != nil {
		return nil, nil, err
	}
	out := index.DeepCopy()
	for i, a := range write {
		at := slices.IndexFunc(out.Manifests, func(d v1.Descriptor) bool {
			return a.Tag != "" && attachmentTag(d) == a.Tag || a.Tag == "" && d.Digest == a.Manifest.Desc.Digest
		})
		switch {
		case at < 0:
			out.Manifests = append(out.Manifests, a.Entry())
		case a.Tag != "":
			h := out.Manifests[at].Digest
			raw, err := b.Document(h, MaxManifest)
			if err == nil {
				write[i], err = a.Extend(Manifest{raw, h}, func(d v1.Descriptor) ([]byte, error) { return ReadBlob(b.blob(d), MaxConfig) })
			}
			if err != nil {
				return nil, nil, err
			}
			out.Manifests[at] = write[i].Entry()
		}
	}
	slices.SortStableFunc(out.Manifests, func(x, y v1.Descriptor) int {
		switch isX, isY := x.Annotations[SubjectAnnotation] != "", y.Annotations[SubjectAnnotation] != ""; {
		case isX && isY:
			return cmp.Compare(x.Digest.Hex, y.Digest.Hex)
		case isX:
			return 1
		case isY:
			return -1
		}
		return 0
	})
	return out, write, nil
}

// mergeTags makes one attachment of those with the same tag.
func mergeTags(all []Attachment) (out []Attachment, err error) {
	for _, a := range all {
		at := slices.IndexFunc(out, func(o Attachment) bool { return a.Tag != "" && o.Tag == a.Tag })
		if at < 0 {
			out = append(out, a)
			continue
		}
		first := out[at]
		more, err := a.Extend(Manifest{first.Manifest.Raw, first.Manifest.Desc.Digest}, func(d v1.Descriptor) ([]byte, error) {
			for _, b := range first.Blobs {
				if b.Desc.Digest == d.Digest {
					return ReadBlob(b, MaxConfig)
				}
			}
			return nil, fmt.Errorf("its config %s is missing", d.Digest)
		})
		if err != nil {
			return nil, err
		}
		more.Blobs = append(slices.Clone(first.Blobs), more.Blobs...)
		if out[at], err = more.withoutOthers(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// withoutOthers removes blobs that the manifest does not name.
func (a Attachment) withoutOthers() (Attachment, error) {
	m, err := parseGeneric(a.Manifest.Raw)
	if err != nil {
		return Attachment{}, err
	}
	a.Blobs = slices.DeleteFunc(a.Blobs, func(b Blob) bool {
		return !slices.ContainsFunc(append(m.Layers, m.Config), func(d v1.Descriptor) bool { return d.Digest == b.Desc.Digest })
	})
	return a, nil
}

// with returns content that has the blobs and manifests of attachments too. The artifact itself stays last.
func (c *Content) with(all []Attachment) *Content {
	seen := map[v1.Hash]bool{}
	for _, b := range c.Blobs {
		seen[b.Desc.Digest] = true
	}
	out := *c
	out.Blobs, out.Documents = slices.Clone(c.Blobs), nil
	for _, a := range all {
		for _, b := range a.Blobs {
			out.addBlob(seen, b)
		}
		for _, d := range append(slices.Clone(a.Nested), a.Manifest) {
			if !seen[d.Desc.Digest] {
				seen[d.Desc.Digest] = true
				out.Documents = append(out.Documents, d)
			}
		}
	}
	out.Documents = append(out.Documents, c.Documents...)
	return &out
}
