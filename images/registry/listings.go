package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// Bounds of listings, and of what belongs to one artifact.
const (
	maxPages           = 1000
	maxTags            = 1 << 20
	maxReferrers       = 10_000   // of one subject
	maxReferrerDepth   = 3        // referrers of referrers of referrers
	maxAttachments     = 10_000   // their manifests
	maxAttachmentBytes = 64 << 20 // of their manifests
)

// nextPage is the link to the next page of a listing, https://www.rfc-editor.org/rfc/rfc8288.
var nextPage = regexp.MustCompile(`<([^>]*)>[^,<]*;\s*rel="?next\b`)

// ListTags returns the sorted tags of the images in a repository (host/path) from its own registry,
// because mirrors may be outdated; tags of signatures and other attachments are left out. A
// registry need not offer listings, and many say that a repository does not exist (fs.ErrNotExist)
// until something is pushed to it. Errors: *Error, fetch.ErrOffline.
func (c *Client) ListTags(ctx context.Context, repository string) (all []string, err error) {
	const op = "list the tags of"
	err = imagename.CheckRepository(repository)
	if err != nil {
		return nil, fmt.Errorf("%s %w", op, err)
	}
	p, err := c.newOnlinePull(op, repository)
	if err != nil {
		return nil, err
	}
	err = p.tryEndpoints(ctx, func(s *session) error {
		all = nil
		return s.pages(ctx, s.url("tags", "list"), "", func(page []byte, _ string) error {
			var some struct{ Tags []string }
			err := json.Unmarshal(page, &some)
			if err != nil {
				return fmt.Errorf("its list of tags is malformed: %w", err)
			}
			all = append(all, some.Tags...)
			if len(all) > maxTags {
				return fmt.Errorf("it sent more than %d tags", maxTags)
			}
			return nil
		})
	})
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), oci.IsAttachmentTag), err
}

// newOnlinePull is newPull from the registry itself, which needs the network.
func (c *Client) newOnlinePull(op, ref string) (*pull, error) {
	p, err := c.newPull(op, ref, OpenOptions{Origin: true})
	if err != nil {
		return nil, err
	}
	if p.opts.Offline {
		return nil, p.offline()
	}
	return p, nil
}

// Attachments returns everything that belongs to an artifact and, for an index, to each of its
// manifests: referrers, by the referrers API of its registry or else by the fallback tag, and what
// is under the tags .sig and .att. For each referrer it looks again, three levels deep. A registry
// is asked itself, because its mirrors may be outdated. A manifest that is listed but gone, or
// names another subject, is left out. The order is fixed: a subject comes before what refers to it,
// referrers are sorted by digest. Manifests are read and verified; a blob is downloaded and
// verified when it is opened, while ctx lasts. ref may also be on this machine. Errors are those of
// Open.
func (c *Client) Attachments(ctx context.Context, ref string) ([]oci.Attachment, error) {
	if oci.IsLocal(ref) {
		return oci.LocalAttachments(ctx, ref)
	}
	p, err := c.newOnlinePull("list the attachments of", ref)
	if err != nil {
		return nil, err
	}
	top, err := p.top(ctx)
	if err != nil {
		return nil, err
	}
	a, err := oci.NewArtifact(top, p.blobs(ctx))
	if err != nil {
		return nil, p.fail(err)
	}
	content, err := oci.Collect(a)
	if err != nil {
		return nil, p.fail(err)
	}
	subjects := content.Subjects()
	f := finder{pull: p, seen: map[v1.Hash]bool{}}
	for range maxReferrerDepth {
		subjects, err = f.level(ctx, subjects)
		if err != nil {
			return nil, err
		}
	}
	return f.found, nil
}

// finder is the state of one search for attachments.
type finder struct {
	*pull
	found []oci.Attachment
	seen  map[v1.Hash]bool // referrers
	count atomic.Int64     // of manifests
	bytes atomic.Int64     // of these
}

// level finds what belongs to subjects, in parallel, and returns the new referrers.
func (f *finder) level(ctx context.Context, subjects []v1.Hash) (next []v1.Hash, err error) {
	lists := make([][]oci.Attachment, len(subjects))
	// without a context of its own, because blobs are opened after the end of the jobs
	var jobs errgroup.Group
	jobs.SetLimit(f.opts.Jobs)
	for i, subject := range subjects {
		jobs.Go(func() error {
			return f.tryEndpoints(ctx, func(s *session) (err error) {
				lists[i], err = f.belonging(ctx, s, subject)
				return err
			})
		})
	}
	if err := jobs.Wait(); err != nil {
		return nil, err
	}
	for _, a := range slices.Concat(lists...) {
		h := a.Manifest.Desc.Digest
		if a.Tag == "" && f.seen[h] {
			continue
		}
		if a.Tag == "" {
			f.seen[h], next = true, append(next, h)
		}
		f.found = append(f.found, a)
		for _, b := range a.Blobs {
			f.origins.Store(b.Desc.Digest, f.ref.repo.Name())
		}
	}
	return next, nil
}

// referrers lists what refers to a subject, sorted by digest, by the referrers API or else by the
// fallback tag. What a registry says of a manifest is not used.
func (s *session) referrers(ctx context.Context, subject v1.Hash) ([]v1.Descriptor, error) {
	all, has, err := s.listed(ctx, subject)
	if err != nil {
		return nil, &itemError{"referrers of " + subject.String(), err}
	}
	if has {
		return oci.SortDigests(all), nil
	}
	index, err := s.tagged(ctx, oci.ReferrersTag(subject))
	if err != nil || index == nil {
		return nil, err
	}
	all, err = readReferrers(nil, index)
	if err != nil {
		return nil, &itemError{"referrers of " + subject.String(), err}
	}
	return oci.SortDigests(all), nil
}

// listed asks the referrers API, and keeps whether the registry has it.
func (s *session) listed(
	ctx context.Context,
	subject v1.Hash,
) (all []v1.Descriptor, has bool, err error) {
	known := s.lists.Load()
	if known != nil && !*known {
		return nil, false, nil
	}
	has = true
	index := string(types.OCIImageIndex)
	from := s.url("referrers", subject.String())
	err = s.pages(ctx, from, index, func(page []byte, mediaType string) (err error) {
		if mediaType != index {
			has = false // it answers whatever it is asked
			return nil
		}
		all, err = readReferrers(all, page)
		return err
	})
	if lacksReferrersAPI(err) {
		has = false
		err = nil
	}
	if err != nil {
		return nil, false, err
	}
	s.lists.Store(&has)
	return all, has, nil
}

// readReferrers adds the entries of an index. Some registries write null for a list without entries.
func readReferrers(all []v1.Descriptor, index []byte) ([]v1.Descriptor, error) {
	var list struct{ Manifests json.RawMessage }
	err := json.Unmarshal(index, &list)
	if err != nil || list.Manifests == nil {
		return nil, final(errors.New("the list of referrers is malformed: it has no manifests"))
	}
	var entries []struct{ Digest string }
	err = json.Unmarshal(list.Manifests, &entries)
	if err != nil {
		return nil, final(fmt.Errorf("the list of referrers is malformed: %w", err))
	}
	for _, entry := range entries {
		h, err := v1.NewHash(entry.Digest)
		if err != nil || h.Algorithm != "sha256" {
			return nil, final(
				fmt.Errorf(
					"the list is malformed: entry %q (only sha256 is supported)",
					entry.Digest,
				),
			)
		}
		all = append(all, v1.Descriptor{Digest: h})
	}
	if len(all) > maxReferrers {
		return nil, final(fmt.Errorf("it has more than %d", maxReferrers))
	}
	return all, nil
}

// belonging finds what belongs to one subject.
func (f *finder) belonging(
	ctx context.Context,
	s *session,
	subject v1.Hash,
) (all []oci.Attachment, err error) {
	listed, err := s.referrers(ctx, subject)
	if err != nil {
		return nil, err
	}
	for _, d := range listed {
		raw, err := f.byDigest(ctx, d.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and the index under the fallback tag was not changed
		}
		if err != nil {
			return nil, &itemError{"referrer " + d.Digest.String(), err}
		}
		a, err := f.attachment(ctx, subject, "", raw)
		if errors.Is(err, oci.ErrSubject) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &itemError{"referrer " + d.Digest.String(), err}
		}
		all = append(all, a)
	}
	for _, tag := range []string{oci.SignatureTag(subject), oci.AttestationTag(subject)} {
		raw, err := s.tagged(ctx, tag)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			continue
		}
		a, err := f.attachment(ctx, subject, tag, raw)
		if err != nil {
			return nil, &itemError{"tag " + tag, err}
		}
		all = append(all, a)
	}
	return all, nil
}

func (f *finder) attachment(
	ctx context.Context,
	subject v1.Hash,
	tag string,
	raw []byte,
) (oci.Attachment, error) {
	if f.count.Add(1) > maxAttachments || f.bytes.Add(int64(len(raw))) > maxAttachmentBytes {
		return oci.Attachment{}, fmt.Errorf(
			"more than %d attachments, or %d bytes of their manifests",
			maxAttachments,
			maxAttachmentBytes,
		)
	}
	t, err := oci.NewArtifact(raw, f.blobs(ctx))
	if err != nil {
		return oci.Attachment{}, err
	}
	return oci.AttachmentOf(subject, tag, t)
}
