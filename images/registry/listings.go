package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// Bounds of listings.
const (
	maxPages     = 1000
	maxTags      = 1 << 20
	maxReferrers = 10_000 // of one subject
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

// Attachments returns what belongs to an artifact, as [oci.FindAttachments] does: referrers, by the
// referrers API of its registry or else by the fallback tag, and what is under the tags .sig and
// .att. A registry is asked itself, because its mirrors may be outdated. Manifests are read and
// verified; a blob is downloaded and verified when it is opened, while ctx lasts. ref may also be
// on this machine. Errors are those of Open.
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
	artifact, err := oci.NewArtifact(top, p.blobs(ctx))
	if err != nil {
		return nil, p.fail(err)
	}
	list := func(subject v1.Hash) (listed []oci.Listed, err error) {
		err = p.tryEndpoints(ctx, func(s *session) (err error) {
			listed, err = s.attachments(ctx, subject)
			return err
		})
		return listed, err
	}
	all, err := oci.FindAttachments(artifact, p.blobs(ctx), p.opts.Jobs, list)
	if err != nil {
		return nil, wrapped(ctx, p.op, ref, p.ref.repo.RegistryStr(), err)
	}
	for _, a := range all {
		for _, b := range a.Blobs {
			p.origins.Store(b.Desc.Digest, p.ref.repo.Name())
		}
	}
	return all, nil
}

// attachments lists what may belong to a subject.
func (s *session) attachments(ctx context.Context, subject v1.Hash) (all []oci.Listed, err error) {
	all, err = s.referrers(ctx, subject)
	if err != nil {
		return nil, &itemError{"referrers of " + subject.String(), err}
	}
	for _, tag := range []string{oci.SignatureTag(subject), oci.AttestationTag(subject)} {
		raw, err := s.tagged(ctx, tag)
		if err != nil {
			return nil, err
		}
		if raw != nil {
			all = append(all, oci.Listed{Tag: tag, Raw: raw})
		}
	}
	return all, nil
}

// referrers lists what refers to a subject, by the referrers API or else by the fallback tag. What a
// registry says of a manifest is not used.
func (s *session) referrers(ctx context.Context, subject v1.Hash) ([]oci.Listed, error) {
	all, has, err := s.listed(ctx, subject)
	if err != nil || has {
		return all, err
	}
	index, err := s.tagged(ctx, oci.ReferrersTag(subject))
	if err != nil || index == nil {
		return nil, err
	}
	return readReferrers(nil, index)
}

// listed asks the referrers API, and keeps whether the registry has it.
func (s *session) listed(
	ctx context.Context,
	subject v1.Hash,
) (all []oci.Listed, has bool, err error) {
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
func readReferrers(all []oci.Listed, index []byte) ([]oci.Listed, error) {
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
		all = append(all, oci.Listed{Digest: h})
	}
	if len(all) > maxReferrers {
		return nil, final(fmt.Errorf("it has more than %d", maxReferrers))
	}
	return all, nil
}
