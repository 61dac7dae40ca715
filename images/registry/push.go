package registry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// Stats count what a push did with the blobs (layers and configs) of an artifact.
type Stats struct {
	Uploaded int   // sent
	Mounted  int   // taken by the registry from another of its repositories
	Existing int   // already in the repository
	Bytes    int64 // of blobs, sent over the network; bytes sent twice count twice

	// Attachments counts signatures, attestations and other referrers, also those that the registry
	// had. Their blobs are in the counts above, except those of a tag that did not change.
	Attachments int
}

// Add adds the counts of another push.
func (s *Stats) Add(more Stats) {
	s.Uploaded += more.Uploaded
	s.Mounted += more.Mounted
	s.Existing += more.Existing
	s.Bytes += more.Bytes
	s.Attachments += more.Attachments
}

// push is the state of one push into one repository.
type push struct {
	*Client
	ref  reference
	s    *session
	from []name.Repository // of the same registry, to try mounts from, for blobs of unknown origin

	mu    sync.Mutex
	stats Stats
}

// newPush prepares a push. from names repositories that blobs may be mounted from; those of other
// registries are ignored.
func (c *Client) newPush(ref string, from []string) (p *push, err error) {
	p = &push{Client: c}
	p.ref, err = parseReference(ref)
	if err != nil {
		return nil, err
	}
	for _, other := range from {
		if r, ok := p.sibling(other); ok && !slices.Contains(p.from, r) {
			p.from = append(p.from, r)
		}
	}
	p.s = c.session(endpoint{p.ref.repo, false, c.opts.Attempts}, transport.PushScope)
	return p, nil
}

func (p *push) fail(ctx context.Context, err error) error {
	return wrapped(ctx, "push", p.ref.text, p.ref.repo.RegistryStr(), err)
}

// sibling returns another repository of the same registry; ok is false if it is none.
func (p *push) sibling(text string) (repository name.Repository, ok bool) {
	r, err := parseReference(text)
	if err != nil || r.repo.RegistryStr() != p.ref.repo.RegistryStr() {
		return name.Repository{}, false
	}
	return r.repo, r.repo.RepositoryStr() != p.ref.repo.RepositoryStr()
}

// Push sends an artifact (an image, an index or any other) to ref (repository:tag, or
// repository@digest), and lets further tags of the same repository name it too. Blobs go first:
// Push checks for each, else mounts it from another repository, else uploads it. Then come the
// manifests that an index names, then the tags. A tag moves only when all of its content is in the
// registry. An artifact that already has all its names costs one request for each name. Errors:
// *Error; *fetch.MismatchError when a blob does not match its digest.
func (c *Client) Push(
	ctx context.Context,
	ref string,
	t oci.Artifact,
	tags ...string,
) (v1.Hash, Stats, error) {
	all, err := oci.Collect(t)
	if err != nil {
		return v1.Hash{}, Stats{}, fmt.Errorf("push %s: %w", ref, err)
	}
	stats, err := c.PushContent(ctx, ref, all, nil, tags...)
	return all.Top().Desc.Digest, stats, err
}

// PushContent is Push of the content of an artifact with attachments, which are in the registry
// before the tags move.
func (c *Client) PushContent(
	ctx context.Context,
	ref string,
	all *oci.Content,
	attachments []oci.Attachment,
	tags ...string,
) (Stats, error) {
	p, err := c.newPush(ref, slices.Concat(all.Bases, c.opts.MountFrom))
	if err != nil {
		return Stats{}, err
	}
	names, err := targets(p.ref, all.Top().Desc.Digest, tags)
	if err != nil {
		return Stats{}, err
	}
	err = p.fail(ctx, p.run(ctx, all, attachments, names))
	return p.counts(), err
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
		if err := imagename.CheckTag(t); err != nil {
			return nil, fmt.Errorf("push %s: %w", r.text, err)
		}
		names = append(names, t)
	}
	if len(names) == 0 {
		names = append(names, digest.String())
	}
	slices.Sort(names[1:])
	return slices.Compact(names), nil
}

func (p *push) run(
	ctx context.Context,
	all *oci.Content,
	attachments []oci.Attachment,
	names []string,
) error {
	top := all.Top()
	missing := []string{}
	for _, name := range names {
		exists, err := p.has(ctx, name, top)
		if err != nil {
			return err
		}
		if !exists {
			missing = append(missing, name)
		}
	}
	there := len(missing) < len(names)
	digest := top.Desc.Digest.String()
	if !there && names[0] != digest {
		var err error
		there, err = p.has(ctx, digest, top)
		if err != nil {
			return err
		}
	}
	if there {
		p.countAll(all.Blobs)
	} else {
		documents := all.Documents
		if len(attachments) == 0 { // which refer to the manifest
			documents = documents[:len(documents)-1]
		}
		err := p.parts(ctx, all.Blobs, documents)
		if err != nil {
			return err
		}
	}
	err := p.attach(ctx, attachments)
	if err != nil {
		return err
	}
	for _, tag := range missing {
		_, err := p.put(ctx, tag, top)
		if err != nil {
			return err
		}
	}
	return nil
}

// parts sends what a manifest names: blobs, and then documents.
func (p *push) parts(ctx context.Context, blobs []oci.Blob, documents []oci.Document) error {
	jobs, jctx := errgroup.WithContext(ctx)
	jobs.SetLimit(p.opts.Jobs)
	for _, b := range blobs {
		jobs.Go(func() error {
			state, err := p.blob(jctx, b)
			p.count(b, state)
			return err
		})
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	for _, d := range documents {
		if _, err := p.put(ctx, d.Desc.Digest.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the registry has the document under that name.
func (p *push) has(ctx context.Context, name string, d oci.Document) (bool, error) {
	got, err := p.s.headManifest(ctx, name)
	if statusOf(err) == http.StatusNotFound {
		return false, nil
	}
	if err != nil || got != d.Desc.Digest {
		return false, err
	}
	p.reportState("manifest "+name, "", d.Desc.Size, Exists)
	return true, nil
}

func (p *push) reportState(name, called string, size int64, s State) {
	p.report(
		Event{
			Op:      "push",
			Ref:     p.ref.text,
			Name:    name,
			Called:  called,
			Current: size,
			Total:   size,
			State:   s,
		},
	)
}

// countAll counts blobs of a manifest that is there.
func (p *push) countAll(blobs []oci.Blob) {
	for _, b := range blobs {
		p.count(b, Exists)
	}
}

// counts returns the counts so far: after a failure a request may still read a blob.
func (p *push) counts() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *push) count(b oci.Blob, s State) {
	if s != Running {
		p.reportState(b.Desc.Digest.String(), b.Name, b.Desc.Size, s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case Exists:
		p.stats.Existing++
	case Mounted:
		p.stats.Mounted++
	case Done:
		p.stats.Uploaded++
	case Running: // it failed
	}
}

// put puts a manifest under a tag or digest, and checks that the registry stored it with the right
// digest. It returns the subject of which the registry lists the manifest as a referrer; "" is
// none, or a registry that keeps no list. Pusher.Put of go-containerregistry does not tell the
// subject, and changes the list in its own way, so that what others add at the same time is lost.
func (p *push) put(ctx context.Context, under string, d oci.Document) (subject string, err error) {
	got, err := p.s.send(ctx, request{
		method: http.MethodPut, to: p.s.url("manifests", under), content: d,
	})
	if err != nil {
		return "", &itemError{"manifest " + under, err}
	}
	stored := got.Header.Get("Docker-Content-Digest")
	if stored != "" && stored != d.Desc.Digest.String() {
		return "", &itemError{
			"manifest " + under,
			fmt.Errorf("it stored manifest %s as %s", d.Desc.Digest, printable(stored)),
		}
	}
	p.reportState("manifest "+under, "", d.Desc.Size, Done)
	return got.Header.Get("OCI-Subject"), nil
}
