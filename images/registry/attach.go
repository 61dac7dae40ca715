package registry

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// Bounds of the changes of tags by several programs at the same time.
const (
	updateRounds = 20 // writes of one tag
	// of the time between reading and writing that others are assumed to need
	maxWindow = 10 * time.Second
)

// Attach pushes attachments into the repository of ref; its tag and digest do not matter. A manifest with a
// tag (.sig, .att) extends the one that the registry has under it. A referrer is pushed by its digest; if the
// registry has no referrers API, Attach adds it to the index under the fallback tag. What is there already is
// not sent again. What others add to a tag at the same time stays, see update. Errors: *Error;
// *fetch.MismatchError when a blob does not match its digest.
func (c *Client) Attach(ctx context.Context, ref string, all ...oci.Attachment) (Stats, error) {
	if len(all) == 0 {
		return Stats{}, nil
	}
	p, err := c.newPush(ref, nil)
	if err != nil {
		return Stats{}, err
	}
	err = p.attach(ctx, all)
	return p.counts(), p.fail(ctx, err)
}

func (p *push) attach(ctx context.Context, all []oci.Attachment) error {
	var tags []tagChange
	var subjects []v1.Hash // of referrers that the registry did not list, in order
	unlisted := map[v1.Hash][]v1.Descriptor{}
	for _, a := range all {
		p.stats.Attachments++
		if a.Tag != "" {
			tags = append(tags, p.extension(ctx, a))
			continue
		}
		listed, err := p.refer(ctx, a)
		if err != nil {
			return err
		}
		if !listed {
			if unlisted[a.Subject] == nil {
				subjects = append(subjects, a.Subject)
			}
			unlisted[a.Subject] = append(unlisted[a.Subject], a.Manifest.Desc)
		}
	}
	var changes []tagChange
	for _, s := range subjects {
		changes = append(changes, listing(s, unlisted[s]))
	}
	return p.update(ctx, append(changes, tags...))
}

// refer pushes a referrer, and reports whether the registry lists it by itself.
func (p *push) refer(ctx context.Context, a oci.Attachment) (listed bool, err error) {
	name := a.Manifest.Desc.Digest.String()
	exists, err := p.has(ctx, name, a.Manifest)
	if err != nil {
		return false, err
	}
	if exists {
		p.countAll(a.Blobs)
		return p.s.listsReferrers(ctx, a.Subject)
	}
	err = p.parts(ctx, a.Blobs, a.Nested)
	if err != nil {
		return false, err
	}
	subject, err := p.put(ctx, name, a.Manifest)
	if err != nil || subject == a.Subject.String() {
		return true, err
	}
	return p.s.listsReferrers(ctx, a.Subject)
}

// listsReferrers reports whether the registry has the referrers API. It asks once for a repository.
func (s *session) listsReferrers(ctx context.Context, subject v1.Hash) (bool, error) {
	known := s.lists.Load()
	if known != nil {
		return *known, nil
	}
	_, has, err := s.listed(ctx, subject)
	return has, err
}

// tagChange adds to the manifest under a tag.
type tagChange struct {
	tag string
	// merge gets the manifest that is there, nil if there is none, and returns the one to push,
	// with the blobs that the registry may lack.
	merge func([]byte) (oci.Attachment, error)
}

// listing adds referrers to the index under the fallback tag.
func listing(subject v1.Hash, more []v1.Descriptor) tagChange {
	return tagChange{oci.ReferrersTag(subject), func(there []byte) (oci.Attachment, error) {
		raw, err := oci.AddReferrers(there, more)
		return oci.Attachment{Manifest: oci.NewDocument(raw, types.OCIImageIndex)}, err
	}}
}

// extension adds the layers of an attachment to those under its tag.
func (p *push) extension(ctx context.Context, a oci.Attachment) tagChange {
	return tagChange{a.Tag, func(there []byte) (oci.Attachment, error) {
		if there == nil {
			return a, nil
		}
		return a.Extend(there, func(d v1.Descriptor) ([]byte, error) { return p.s.config(ctx, d) })
	}}
}

// update is the only way in which tags that several programs add to are changed: .sig, .att and the
// fallback tag. The distribution specification has no conditional writes: of two programs that read
// a tag at the same time, the second to write removes what the first wrote, and neither sees that.
// So update reads all tags again after a pause, and merges and writes again what is missing, until
// nothing is. The pause is several times as long as what lies between reading a tag and writing it,
// and random, so that programs that began together part.
func (p *push) update(ctx context.Context, changes []tagChange) error {
	pause := p.opts.Backoff
	missing := ""
	for range updateRounds {
		missing = ""
		for _, c := range changes {
			window, err := p.write(ctx, c)
			if err != nil {
				return &itemError{"tag " + c.tag, err}
			}
			if window > 0 {
				missing = c.tag
				pause = max(pause, 4*min(window, maxWindow))
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause + rand.N(pause)): //nolint:gosec // it protects nothing
		}
	}
	return &itemError{
		"tag " + missing,
		fmt.Errorf(
			"other programs replaced it %d times while it was changed: try again",
			updateRounds,
		),
	}
}

// write merges and writes one tag, which no other goroutine of this client changes meanwhile. Blobs
// take time: the tag is read again when they are there. window is how long others may have changed
// the tag unseen; 0 if nothing had to be written.
func (p *push) write(ctx context.Context, c tagChange) (window time.Duration, err error) {
	known, _ := p.tagLocks.LoadOrStore(p.ref.repo.Name()+":"+c.tag, &sync.Mutex{})
	lock, ok := known.(*sync.Mutex)
	if ok {
		lock.Lock()
		defer lock.Unlock()
	}
	var a oci.Attachment
	var merged []byte // the manifest that a adds to
	for round := range updateRounds {
		began := time.Now()
		there, err := p.s.tagged(ctx, c.tag)
		if err != nil {
			return 0, err
		}
		if round > 0 && bytes.Equal(there, merged) {
			_, err = p.put(ctx, c.tag, a.Manifest)
			return time.Since(began), err
		}
		a, err = c.merge(there)
		if err != nil {
			return 0, err
		}
		if bytes.Equal(there, a.Manifest.Raw) {
			p.reportState("manifest "+c.tag, "", a.Manifest.Desc.Size, Exists)
			return 0, nil
		}
		err = p.parts(ctx, a.Blobs, a.Nested)
		if err != nil {
			return 0, err
		}
		merged = there
	}
	return time.Nanosecond, nil // update waits, and tries again
}
