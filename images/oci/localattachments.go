package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
)

// LocalAttachments returns everything in a layout or an OCI archive that belongs to an artifact in
// it, as [FindAttachments] does: entries that name a subject, whatever wrote them, .sig and .att,
// and the entries of indexes of referrers. A docker-archive has none.
func LocalAttachments(ctx context.Context, ref string) (all []Attachment, err error) {
	l, ok := ParseLocal(ref)
	if !ok || l.kind == "docker-archive" {
		return nil, nil
	}
	defer failure.Wrap(&err, "read what belongs to %s", ref)
	index, blobs, err := l.index()
	if err != nil {
		return nil, err
	}
	top, err := l.choose("", index.Manifests, blobs)
	if err != nil {
		return nil, err
	}
	artifact, err := NewArtifact(top, blobs)
	if err != nil {
		return nil, err
	}
	listed, err := listAttachments(ctx, index.Manifests, blobs)
	if err != nil {
		return nil, err
	}
	list := func(subject v1.Hash) ([]Listed, error) { return listed[subject], nil }
	return FindAttachments(artifact, blobs, 1, list)
}

// listAttachments reads which entries of a layout belong to which subject.
func listAttachments(
	ctx context.Context,
	entries []v1.Descriptor,
	blobs Blobs,
) (map[v1.Hash][]Listed, error) {
	all := map[v1.Hash][]Listed{}
	size := 0
	for _, d := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		raw, err := blobs.Document(d.Digest, MaxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the layout does not have everything
		}
		if err != nil {
			return nil, err
		}
		size += len(raw)
		if size > maxDocumentBytes {
			return nil, fmt.Errorf("its manifests have more than %d bytes", maxDocumentBytes)
		}
		tag := attachmentTag(d)
		hex, kind, _ := strings.Cut(strings.TrimPrefix(tag, "sha256-"), ".")
		subject := v1.Hash{Algorithm: "sha256", Hex: hex}
		if tag != "" && kind == "" {
			list, err := parseReferrers(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", tag, err)
			}
			for _, d := range list.Manifests {
				all[subject] = append(all[subject], Listed{Digest: d.Digest})
			}
			continue
		}
		if tag == "" {
			doc, err := parse(raw)
			if err != nil || doc.Subject.Digest.Hex == "" {
				continue // an image, or something else
			}
			subject = doc.Subject.Digest
		}
		all[subject] = append(all[subject], Listed{Tag: tag, Digest: d.Digest})
	}
	return all, nil
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
