package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// LocalAttachments returns everything in a layout or an OCI archive that belongs to an artifact in
// it and, for an index, to each of its manifests: entries that name a subject, whatever wrote them,
// .sig and .att, and the entries of indexes of referrers. Referrers of referrers follow what they
// refer to. A docker-archive has none.
func LocalAttachments(ctx context.Context, ref string) (out []Attachment, err error) {
	l, ok := ParseLocal(ref)
	if !ok || l.kind == "docker-archive" {
		return nil, nil
	}
	defer failure.Wrap(&err, "read what belongs to %s", ref)
	index, b, err := l.index()
	if err != nil {
		return nil, err
	}
	top, err := l.choose("", index.Manifests, b)
	if err != nil {
		return nil, err
	}
	artifact, err := NewArtifact(top, b)
	if err != nil {
		return nil, err
	}
	content, err := Collect(artifact)
	if err != nil {
		return nil, err
	}
	f := finder{blobs: b, seen: map[string]bool{}, found: map[v1.Hash][]Attachment{}}
	for _, d := range index.Manifests {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		err := f.add(d.Digest, attachmentTag(d))
		if err != nil {
			return nil, err
		}
	}
	subjects := content.Subjects()
	for i := 0; i < len(subjects); i++ {
		for _, a := range f.of(subjects[i]) {
			out = append(out, a)
			if a.Tag == "" {
				subjects = append(subjects, a.Manifest.Desc.Digest)
			}
		}
	}
	return out, nil
}

// finder collects the attachments of a layout.
type finder struct {
	blobs Blobs
	seen  map[string]bool // digests with their tags
	found map[v1.Hash][]Attachment
	size  int // of the manifests read
}

// of returns the attachments of a subject when it is first asked: referrers sorted by digest, then
// .sig and .att.
func (f *finder) of(subject v1.Hash) []Attachment {
	list := f.found[subject]
	suffixes := []string{"", ".sig", ".att"}
	delete(f.found, subject)
	slices.SortFunc(list, func(x, y Attachment) int {
		return cmp.Or(
			slices.Index(suffixes, path.Ext(x.Tag))-slices.Index(suffixes, path.Ext(y.Tag)),
			cmp.Compare(x.Manifest.Desc.Digest.Hex, y.Manifest.Desc.Digest.Hex),
		)
	})
	return list
}

// add adds the attachments that an entry leads to, if any.
func (f *finder) add(h v1.Hash, tag string) error {
	if f.seen[h.String()+tag] {
		return nil
	}
	f.seen[h.String()+tag] = true
	raw, err := f.blobs.Document(h, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the layout does not have everything
	}
	if err != nil {
		return err
	}
	f.size += len(raw)
	if f.size > maxDocumentBytes {
		return fmt.Errorf("its manifests have more than %d bytes", maxDocumentBytes)
	}
	if tag != "" && path.Ext(tag) == "" {
		list, err := parseReferrers(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", tag, err)
		}
		for _, d := range list.Manifests {
			err := f.add(d.Digest, "")
			if err != nil {
				return err
			}
		}
		return nil
	}
	hex := strings.TrimPrefix(strings.TrimSuffix(tag, path.Ext(tag)), "sha256-")
	subject := v1.Hash{Algorithm: "sha256", Hex: hex}
	if tag == "" {
		doc, err := parse(raw)
		if err != nil || doc.Subject.Digest.Hex == "" {
			return nil //nolint:nilerr // an image, or something else
		}
		subject = doc.Subject.Digest
	}
	artifact, err := NewArtifact(raw, f.blobs)
	if err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	a, err := AttachmentOf(subject, tag, artifact)
	if err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	f.found[subject] = append(f.found[subject], a)
	return nil
}

// attachmentTag returns the tag of an entry that has one of an attachment, "" for any other.
func attachmentTag(d v1.Descriptor) string {
	_, full := splitTag(d.Annotations[ContainerdNameAnnotation])
	for _, tag := range []string{d.Annotations[TagAnnotation], d.Annotations[RefNameAnnotation], full} {
		if IsAttachmentTag(tag) {
			return tag
		}
	}
	return ""
}
