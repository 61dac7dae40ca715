package apt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
)

// open fetches, verifies and parses the Release file: InRelease or, where that does not exist,
// Release with Release.gpg.
func (r *repo) open(ctx context.Context, o Options) error {
	text, err := r.fetchRelease(ctx, o)
	if err != nil {
		return err
	}
	r.digest = fmt.Sprintf("%x", sha256.Sum256(text))
	r.rel, err = parseRelease(text)
	if err != nil {
		return err
	}
	if r.rel.date.IsZero() {
		r.notes = append(
			r.notes,
			r.name()+" has no Date that can be read: an older Release file would not be noticed",
		)
	}
	return r.rel.check(r.suite, o.Now, o.AllowExpired || r.source.NoValidUntil)
}

func (r *repo) fetchRelease(ctx context.Context, o Options) ([]byte, error) {
	t := pgp.Trust{Now: o.Now, AllowExpired: o.AllowExpired, Hint: "name a keyring with Signed-By"}
	var err error
	t.Ring, err = keysFor(o.Root, r.source)
	if err != nil {
		return nil, err
	}
	url := r.dir + "/InRelease"
	offline := *o.Fetch
	offline.Offline = true
	before, _ := offline.Latest(ctx, url, maxRelease)
	inline, err := o.Fetch.Latest(ctx, url, maxRelease)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fetch.ErrOffline) {
		text, detached := r.fetchDetached(ctx, o, t)
		if detached != nil {
			return nil, errors.Join(err, detached)
		}
		return text, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := t.Clearsigned(inline)
	if err != nil && (!r.source.Trusted || text == nil) {
		return nil, fmt.Errorf("file InRelease: %w", err)
	}
	if o.AllowRollback || bytes.Equal(before, inline) {
		return text, nil
	}
	kept, err := t.Clearsigned(before)
	if err != nil || !r.goesBack(kept, text) {
		return text, nil //nolint:nilerr // a copy that is damaged does not count
	}
	return kept, o.Fetch.Keep(url, before)
}

// fetchDetached fetches and verifies Release and Release.gpg.
func (r *repo) fetchDetached(ctx context.Context, o Options, t pgp.Trust) ([]byte, error) {
	text, err := o.Fetch.Latest(ctx, r.dir+"/Release", maxRelease)
	if err != nil {
		return nil, err
	}
	if r.source.Trusted {
		return text, nil
	}
	sig, err := o.Fetch.Latest(ctx, r.dir+"/Release.gpg", 1<<20)
	if err != nil {
		return nil, err
	}
	if err := t.Detached(text, sig); err != nil {
		return nil, fmt.Errorf("file Release.gpg: %w", err)
	}
	return text, nil
}

// goesBack reports whether a server sends an older Release file than before, and notes that:
// mirrors that are updated in turns do, and attackers who hide updates. Like apt, a build stays
// with the newer one, which its packages fit.
func (r *repo) goesBack(before, now []byte) bool {
	b, err := parseRelease(before)
	if err != nil {
		return false
	}
	n, err := parseRelease(now)
	if err != nil || !b.date.After(n.date) {
		return false
	}
	r.notes = append(
		r.notes,
		fmt.Sprintf("%s has a Release file of %s and had one of %s before, which stays in use; "+
			"if the repository was set back on purpose, give --allow-rollback", r.name(), n.date.Format(time.RFC3339), b.date.Format(time.RFC3339)),
	)
	return true
}

// Digest identifies everything that resolving can depend on: the signed texts of all Release files,
// in order, and the options. It is a key for cached plans, 64 hex digits.
func (r *Releases) Digest() string {
	type line struct {
		Base, Suite, Release string
		Components           []string
	}
	state := struct {
		Format       int
		Arch         string
		AllowExpired bool
		Repos        []line
	}{1, r.options.Arch, r.options.AllowExpired, nil}
	for _, repo := range r.repos {
		state.Repos = append(state.Repos, line{repo.base, repo.suite, repo.digest, repo.components})
	}
	data, err := json.Marshal(state)
	if err != nil { // impossible for strings; a constant digest would be wrong
		data = fmt.Append(nil, state)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
