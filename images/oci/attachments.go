package oci

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
)

// Bounds of what belongs to one artifact.
const (
	maxAttachments     = 10_000   // their manifests
	maxAttachmentBytes = 64 << 20 // of their manifests
)

// Listed is a manifest that a registry or a layout lists as one that belongs to a subject. What it
// says of itself decides.
type Listed struct {
	Tag    string // as in Attachment
	Digest v1.Hash
	Raw    []byte // nil: it is read by its digest
}

// FindAttachments returns everything that belongs to an artifact and, for an index, to each of its
// manifests; then what belongs to that, and so on. list is asked once for each subject, for several
// at a time. A referrer that is listed but gone, or names another subject, is left out. The order
// is fixed: a subject comes before what refers to it, referrers are sorted by digest, before .sig
// and .att.
func FindAttachments(
	artifact Artifact,
	blobs Blobs,
	jobs int,
	list func(subject v1.Hash) ([]Listed, error),
) (all []Attachment, err error) {
	content, err := Collect(artifact)
	if err != nil {
		return nil, err
	}
	reader := attachmentReader{blobs: blobs}
	seen := map[v1.Hash]bool{}
	subjects := content.Subjects()
	for len(subjects) > 0 {
		found := make([][]Attachment, len(subjects))
		// without a context of its own, because blobs are opened after the end of the jobs
		var group errgroup.Group
		group.SetLimit(jobs)
		for i, subject := range subjects {
			group.Go(func() error {
				listed, err := list(subject)
				if err != nil {
					return err
				}
				found[i], err = reader.readAll(subject, listed)
				return err
			})
		}
		err = group.Wait()
		if err != nil {
			return nil, err
		}
		subjects = nil
		for _, a := range slices.Concat(found...) {
			digest := a.Manifest.Desc.Digest
			if a.Tag == "" && seen[digest] {
				continue
			}
			if a.Tag == "" {
				seen[digest] = true
				subjects = append(subjects, digest)
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// attachmentReader reads the attachments of one artifact.
type attachmentReader struct {
	blobs Blobs
	count atomic.Int64 // of manifests
	bytes atomic.Int64 // of these
}

func (r *attachmentReader) readAll(subject v1.Hash, listed []Listed) (all []Attachment, err error) {
	suffixes := []string{"", ".sig", ".att"}
	listed = slices.Clone(listed)
	slices.SortFunc(listed, func(a, b Listed) int {
		return cmp.Or(
			slices.Index(suffixes, path.Ext(a.Tag))-slices.Index(suffixes, path.Ext(b.Tag)),
			cmp.Compare(a.Digest.Hex, b.Digest.Hex),
		)
	})
	for _, l := range listed {
		a, err := r.read(subject, l)
		isReferrer := l.Tag == ""
		if isReferrer && (errors.Is(err, ErrSubject) || errors.Is(err, fs.ErrNotExist)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmp.Or(l.Tag, "referrer "+l.Digest.String()), err)
		}
		all = append(all, a)
	}
	return all, nil
}

func (r *attachmentReader) read(subject v1.Hash, l Listed) (a Attachment, err error) {
	raw := l.Raw
	if raw == nil {
		raw, err = r.blobs.Document(l.Digest, MaxManifest)
		if err != nil {
			return a, err
		}
	}
	count := r.count.Add(1)
	size := r.bytes.Add(int64(len(raw)))
	if count > maxAttachments || size > maxAttachmentBytes {
		return a, fmt.Errorf(
			"more than %d attachments, or %d bytes of their manifests",
			maxAttachments,
			maxAttachmentBytes,
		)
	}
	artifact, err := NewArtifact(raw, r.blobs)
	if err != nil {
		return a, err
	}
	return AttachmentOf(subject, l.Tag, artifact)
}
