package registry

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// Copy copies an artifact of any kind, with everything that belongs to it (see [Client.Attachments]), into
// the repository of to, and gives it the tag of to and further tags. from is a reference as [Client.Open]
// takes it. Blobs that the target's registry has in the source's repository are mounted. The tags move last,
// when the attachments are there. Errors are those of Open and Push.
func (c *Client) Copy(ctx context.Context, from, to string, tags ...string) (v1.Hash, Stats, error) {
	fail := func(err error) (v1.Hash, Stats, error) { return v1.Hash{}, Stats{}, err }
	r, err := parseReference(to, c.opts.Insecure)
	if err != nil {
		return fail(err)
	}
	t, err := c.Open(ctx, from)
	if err != nil {
		return fail(err)
	}
	digest, err := t.Digest()
	if err != nil {
		return fail(fmt.Errorf("copy %s: %w", from, err))
	}
	if !oci.IsLocal(from) {
		if from, err = c.source(from, digest, t); err != nil {
			return fail(fmt.Errorf("copy %s: %w", from, err))
		}
	}
	all, err := c.Attachments(ctx, from)
	if err != nil {
		return fail(err)
	}
	if len(all) == 0 {
		return c.Push(ctx, to, t, tags...)
	}
	if _, err := targets(r, digest, tags); err != nil {
		return fail(err)
	}
	_, stats, err := c.Push(ctx, r.repo.Name()+"@"+digest.String(), t)
	if err != nil {
		return v1.Hash{}, stats, err
	}
	more, err := c.Attach(ctx, to, all...)
	stats.Add(more)
	if err != nil {
		return v1.Hash{}, stats, err
	}
	_, _, err = c.Push(ctx, to, t, tags...) // the tags; their counts are those of the first push
	return digest, stats, err
}

// Add adds the counts of another push.
func (s *Stats) Add(more Stats) {
	s.Uploaded += more.Uploaded
	s.Mounted += more.Mounted
	s.Existing += more.Existing
	s.Bytes += more.Bytes
	s.Attachments += more.Attachments
}

// source records that the repository of a reference has the blobs of an artifact, and returns the reference
// with the artifact's digest: the tag may move during the copy.
func (c *Client) source(ref string, digest v1.Hash, t oci.Artifact) (string, error) {
	r, err := parseReference(ref, c.opts.Insecure)
	if err != nil {
		return ref, err
	}
	all, err := oci.Collect(t)
	if err != nil {
		return ref, err
	}
	for _, b := range all.Blobs {
		c.recordMountSource(b.Desc.Digest, r.repo.Name())
	}
	return r.repo.Name() + "@" + digest.String(), nil
}
