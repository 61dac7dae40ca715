package apt

import (
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

// signedText is a Release file, with the documents that a server sent of it by their URLs.
type signedText struct {
	text      []byte
	documents map[string][]byte
}

// fetchRelease returns the verified text of the Release file: that of the server or, if it sent a
// newer one before, in either form, that one. Mirrors that are updated in turns send older ones, and
// so do attackers who hide updates. Like apt, a build stays with the newer one, which its packages
// fit.
func (r *repo) fetchRelease(ctx context.Context, o Options) ([]byte, error) {
	t := pgp.Trust{Now: o.Now, AllowExpired: o.AllowExpired, Hint: "name a keyring with Signed-By"}
	var err error
	t.Ring, err = keysFor(o.Root, r.source)
	if err != nil {
		return nil, err
	}
	before := r.stored(ctx, o, t)
	now, err := r.inline(ctx, o.Fetch, t)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fetch.ErrOffline) {
		missing := err
		now, err = r.detached(ctx, o.Fetch, t)
		if err != nil {
			err = errors.Join(missing, err)
		}
	}
	if err != nil && (!r.source.Trusted || now.text == nil) {
		return nil, errors.Join(err, before.keep(o.Fetch))
	}
	if !before.date().After(now.date()) {
		return now.text, nil
	}
	r.notes = append(
		r.notes,
		fmt.Sprintf("%s has a Release file of %s and had one of %s before, which stays in use; "+
			"if the repository was set back on purpose, give --allow-rollback",
			r.name(), now.date().Format(time.RFC3339), before.date().Format(time.RFC3339)),
	)
	return before.text, before.keep(o.Fetch)
}

// keep makes the documents the copies in the store again.
func (s signedText) keep(client *fetch.Client) (err error) {
	for url, document := range s.documents {
		err = errors.Join(err, client.Keep(url, document))
	}
	return err
}

// date returns the Date of the file, the zero time if it has none that can be read.
func (s signedText) date() time.Time {
	r, err := parseRelease(s.text)
	if err != nil {
		return time.Time{}
	}
	return r.date
}

// stored returns the newest Release file that a server sent before. A copy that is damaged does not
// count.
func (r *repo) stored(ctx context.Context, o Options, t pgp.Trust) (newest signedText) {
	if o.AllowRollback {
		return newest
	}
	offline := *o.Fetch
	offline.Offline = true
	for _, read := range []func(context.Context, *fetch.Client, pgp.Trust) (signedText, error){r.inline, r.detached} {
		kept, err := read(ctx, &offline, t)
		if err == nil && kept.date().After(newest.date()) {
			newest = kept
		}
	}
	return newest
}

// inline fetches and verifies InRelease. It returns a text that nobody trusted has signed too.
func (r *repo) inline(ctx context.Context, client *fetch.Client, t pgp.Trust) (s signedText, err error) {
	url := r.dir + "/InRelease"
	document, err := client.Latest(ctx, url, maxRelease)
	if err != nil {
		return s, err
	}
	s.documents = map[string][]byte{url: document}
	s.text, err = t.Clearsigned(document)
	if err != nil {
		return s, fmt.Errorf("file InRelease: %w", err)
	}
	return s, nil
}

// detached fetches Release and Release.gpg, and verifies them as inline does.
func (r *repo) detached(ctx context.Context, client *fetch.Client, t pgp.Trust) (s signedText, err error) {
	url := r.dir + "/Release"
	s.text, err = client.Latest(ctx, url, maxRelease)
	if err != nil {
		return s, err
	}
	signature, err := client.Latest(ctx, url+".gpg", 1<<20)
	if err != nil {
		return s, err
	}
	s.documents = map[string][]byte{url: s.text, url + ".gpg": signature}
	err = t.Detached(s.text, signature)
	if err != nil {
		return s, fmt.Errorf("file Release.gpg: %w", err)
	}
	return s, nil
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
