package registry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Stats count what a push did with the blobs (layers and configs) of an artifact.
type Stats struct {
	Uploaded int   // sent
	Mounted  int   // taken by the registry from another of its repositories
	Existing int   // already in the repository
	Bytes    int64 // of blobs, sent over the network; bytes sent twice count twice

	// Attachments counts signatures, attestations and other referrers, also those that the registry had. Their
	// blobs are in the counts above, except those of a tag that did not change.
	Attachments int
}

// push is the state of one push of one artifact into one repository.
type push struct {
	*Client
	ref  reference
	s    *transport.Session
	from []string // repositories of the same registry to try mounts from, for blobs of unknown origin
	base []string // from, and the repositories that blobs are known to come from

	mu    sync.Mutex
	stats Stats
}

// Push sends an artifact (an image, an index or any other) to ref (repository:tag, or repository@digest), and
// lets further tags of the same repository name it too. Blobs go first: Push checks for each, else mounts it
// from another repository, else uploads it and resumes an interrupted upload. Then come the manifests that an
// index names, then the tags. A tag moves only when all of its content is in the registry. An artifact that
// already has all its names costs one request for each name. Errors: *Error; *fetch.MismatchError when a blob
// does not match its digest.
func (c *Client) Push(ctx context.Context, ref string, t oci.Artifact, tags ...string) (v1.Hash, Stats, error) {
	r, err := parseReference(ref, c.opts.Insecure)
	if err != nil {
		return v1.Hash{}, Stats{}, err
	}
	all, err := oci.Collect(t)
	if err != nil {
		return v1.Hash{}, Stats{}, fmt.Errorf("push %s: %w", ref, err)
	}
	names, err := targets(r, all.Top().Desc.Digest, tags)
	if err != nil {
		return v1.Hash{}, Stats{}, err
	}
	p := &push{Client: c, ref: r}
	p.candidates(all.Bases, all.Blobs)
	if err := p.run(ctx, all, names); err != nil {
		return v1.Hash{}, p.stats, wrapped(ctx, "push", ref, r.repo.RegistryStr(), err)
	}
	return all.Top().Desc.Digest, p.stats, nil
}

// targets returns the tags to move, or the digest when the reference has no tag.
func targets(r reference, digest v1.Hash, tags []string) ([]string, error) {
	if r.digest != (v1.Hash{}) && r.digest != digest {
		return nil, fmt.Errorf("push %s: the image's digest is %s: push to a tag", r.text, digest)
	}
	names := []string{}
	if r.tag != "" {
		names = append(names, r.tag)
	}
	for _, t := range tags {
		if _, err := parseReference(r.repo.Name()+":"+t, false); err != nil {
			return nil, fmt.Errorf("push %s: %q is not a tag: %w", r.text, t, err)
		}
		names = append(names, t)
	}
	if len(names) == 0 {
		names = append(names, digest.String())
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
}

// candidates returns the repositories of the same registry that blobs may be mounted from.
func (p *push) candidates(bases []string, blobs []oci.Blob) {
	add := func(list *[]string, repository string) {
		r, err := parseReference(repository, p.opts.Insecure)
		if err != nil || r.repo.RegistryStr() != p.ref.repo.RegistryStr() || r.repo.RepositoryStr() == p.ref.repo.RepositoryStr() {
			return
		}
		if s := r.repo.RepositoryStr(); !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, name := range slices.Concat(bases, p.opts.MountFrom) {
		add(&p.from, name)
	}
	p.base = slices.Clone(p.from)
	for _, b := range blobs {
		if o := p.mountSource(b.Desc.Digest); o != "" {
			add(&p.base, o)
		}
	}
}

// open logs in, with the right to read what blobs may be mounted from.
func (p *push) open(ctx context.Context) (err error) {
	p.s, err = p.pool.Session(ctx, transport.Endpoint{Repo: p.ref.repo}, p.opts.Attempts, transport.Push, p.base...)
	return err
}

func (p *push) run(ctx context.Context, all *oci.Content, names []string) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	top := all.Top()
	missing, err := p.missing(ctx, top, names)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		p.unchanged(all.Blobs, top, names)
		return nil
	}
	exists, err := p.hasDocument(ctx, top.Desc.Digest.String(), top)
	if err != nil {
		return err
	}
	if exists {
		p.unchanged(all.Blobs, top, nil)
	} else if err := p.pushParts(ctx, all.Blobs, all.Documents[:len(all.Documents)-1]); err != nil {
		return err
	}
	for _, name := range missing {
		if _, err := p.put(ctx, name, top); err != nil {
			return err
		}
	}
	return nil
}
