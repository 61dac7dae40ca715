package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
)

// LocalAttachments returns everything in a layout or an OCI archive that belongs to an artifact in it and,
// for an index, to each of its manifests: entries that name a subject, whatever wrote them, .sig and .att,
// and the entries of indexes of referrers. Referrers of referrers follow what they refer to. A docker-archive
// has none.
func LocalAttachments(ctx context.Context, store *fetch.Store, ref string) ([]Attachment, error) {
	l, ok := ParseLocal(ref)
	if !ok || l.kind == "docker-archive" {
		return nil, nil
	}
	all, err := l.attachments(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("read what belongs to %s: %w", ref, err)
	}
	return all, nil
}

func (l LocalRef) attachments(ctx context.Context, store *fetch.Store) (out []Attachment, err error) {
	index, b, err := l.index(ctx, store)
	if err != nil {
		return nil, err
	}
	top, err := chooseEntry(l, "", index.Manifests, b)
	if err != nil {
		return nil, err
	}
	content, err := Collect(&stored{top.Raw, b})
	if err != nil {
		return nil, err
	}
	bySubject, err := candidates(ctx, index.Manifests, b)
	if err != nil {
		return nil, err
	}
	var subjects []v1.Hash
	for _, d := range slices.Backward(content.Documents) { // an index before its manifests
		subjects = append(subjects, d.Desc.Digest)
	}
	seen := map[v1.Hash]bool{}
	for i := 0; i < len(subjects); i++ {
		if seen[subjects[i]] {
			continue
		}
		seen[subjects[i]] = true
		for _, a := range bySubject[subjects[i]] {
			out = append(out, a)
			if a.Tag == "" {
				subjects = append(subjects, a.Manifest.Desc.Digest)
			}
		}
	}
	return out, nil
}

// localFinder collects the attachments of a layout.
type localFinder struct {
	blobs     Blobs
	bySubject map[v1.Hash][]Attachment
	size      int // of the manifests read
}

// candidates returns all attachments of a layout by their subject: referrers sorted by digest, then .sig
// and .att.
func candidates(ctx context.Context, entries []v1.Descriptor, b Blobs) (map[v1.Hash][]Attachment, error) {
	f := localFinder{blobs: b, bySubject: map[v1.Hash][]Attachment{}}
	for _, d := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := f.add(d.Digest, attachmentTag(d)); err != nil {
			return nil, err
		}
	}
	for _, list := range f.bySubject {
		slices.SortFunc(list, func(x, y Attachment) int {
			return cmp.Or(slices.Index(suffixes, path.Ext(x.Tag))-slices.Index(suffixes, path.Ext(y.Tag)),
				cmp.Compare(x.Manifest.Desc.Digest.Hex, y.Manifest.Desc.Digest.Hex))
		})
	}
	return f.bySubject, nil
}

// suffixes of the tags of attachments, in the order of lists.
var suffixes = []string{"", ".sig", ".att"}

// add adds the attachments that an entry leads to, if any.
func (f *localFinder) add(h v1.Hash, tag string) error {
	raw, err := f.blobs.Document(h, MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the layout does not have everything
	}
	if f.size += len(raw); err == nil && f.size > maxDocumentBytes {
		err = fmt.Errorf("its manifests have more than %d bytes", maxDocumentBytes)
	}
	if err != nil {
		return err
	}
	if tag != "" && path.Ext(tag) == "" {
		list, err := ParseReferrers(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", tag, err)
		}
		for _, d := range list {
			if err := f.add(d.Digest, ""); err != nil {
				return err
			}
		}
		return nil
	}
	var doc struct{ Subject struct{ Digest v1.Hash } }
	if tag != "" {
		doc.Subject.Digest = v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(strings.TrimSuffix(tag, path.Ext(tag)), "sha256-")}
	} else if json.Unmarshal(raw, &doc) != nil || doc.Subject.Digest.Hex == "" {
		return nil //nolint:nilerr // an image, or something else
	}
	a, err := AttachmentOf(doc.Subject.Digest, tag, &stored{raw, f.blobs})
	if err != nil {
		return fmt.Errorf("%s: %w", h, err)
	}
	if !slices.ContainsFunc(f.bySubject[a.Subject], func(o Attachment) bool { return o.Manifest.Desc.Digest == h }) {
		f.bySubject[a.Subject] = append(f.bySubject[a.Subject], a)
	}
	return nil
}

// attachmentTag returns the tag of an entry that has one of an attachment, "" for any other.
func attachmentTag(d v1.Descriptor) string {
	full := d.Annotations[containerdNameAnnotation]
	for _, tag := range []string{d.Annotations[TagAnnotation], d.Annotations[refNameAnnotation], full[strings.LastIndexByte(full, ':')+1:]} {
		if IsAttachmentTag(tag) {
			return tag
		}
	}
	return ""
}

// imageEntries returns the entries that are no attachments, those with a name if there are any; all if every
// entry is an attachment.
func imageEntries(all []v1.Descriptor) []v1.Descriptor {
	var images, named []v1.Descriptor
	for _, d := range all {
		if d.ArtifactType != "" || d.Annotations[SubjectAnnotation] != "" || attachmentTag(d) != "" {
			continue
		}
		images = append(images, d)
		if d.Annotations[refNameAnnotation] != "" || d.Annotations[containerdNameAnnotation] != "" {
			named = append(named, d)
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(images) > 0:
		return images
	}
	return all
}

// LocalTags returns the tags in a layout or an OCI archive, in its order, each with the digest that it names;
// "" is the tag of an entry without one. What belongs to images has no entry here. A docker-archive has none.
func LocalTags(ctx context.Context, store *fetch.Store, ref string) (tags []string, digests []v1.Hash, err error) {
	l, ok := ParseLocal(ref)
	if !ok || l.kind == "docker-archive" {
		return nil, nil, nil
	}
	index, _, err := l.index(ctx, store)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", ref, err)
	}
	for _, d := range imageEntries(index.Manifests) {
		name := cmp.Or(d.Annotations[refNameAnnotation], d.Annotations[containerdNameAnnotation])
		tags, digests = append(tags, name[strings.LastIndexByte(name, ':')+1:]), append(digests, d.Digest)
	}
	return tags, digests, nil
}

// LocalRepository returns the repository in the full name of the image in an OCI archive, "driver" if it has none.
func LocalRepository(ctx context.Context, store *fetch.Store, l LocalRef) (string, error) {
	index, _, err := l.index(ctx, store)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", l.text, err)
	}
	for _, d := range imageEntries(index.Manifests) {
		if full := d.Annotations[containerdNameAnnotation]; strings.Contains(full, ":") {
			return full[:strings.LastIndexByte(full, ':')], nil
		}
	}
	return "driver", nil
}
