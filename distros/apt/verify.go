package apt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
)

// open fetches, verifies and parses the Release file: InRelease or, where that does not exist, Release with
// Release.gpg.
func (r *repo) open(ctx context.Context, o Options) error {
	text, err := r.fetchRelease(ctx, o)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	r.digest = hex.EncodeToString(sum[:])
	if r.rel, err = parseRelease(text); err != nil {
		return err
	}
	return r.rel.check(r.suite, o.Now, o.AllowExpired || r.source.NoValidUntil)
}

func (r *repo) fetchRelease(ctx context.Context, o Options) ([]byte, error) {
	t := pgp.Trust{Now: o.Now, AllowExpired: o.AllowExpired, Hint: "name a keyring with Signed-By"}
	var err error
	if t.Ring, err = keysFor(o.Root, r.source); err != nil {
		return nil, err
	}
	inline, err := o.Fetch.Latest(ctx, r.dir+"/InRelease", maxRelease)
	if err == nil {
		text, err := t.Clearsigned(inline)
		if err != nil && (!r.source.Trusted || text == nil) {
			return nil, fmt.Errorf("file InRelease: %w", err)
		}
		return text, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fetch.ErrOffline) {
		return nil, err
	}
	text, err2 := o.Fetch.Latest(ctx, r.dir+"/Release", maxRelease)
	if err2 != nil {
		return nil, errors.Join(err, err2)
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

// Digest identifies everything that resolving can depend on: the signed texts of all Release files, in order,
// and the options. It is a key for cached plans, 64 hex digits.
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
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// keysFor returns the keys that are trusted for a source: its own, or those that its Signed-By names, or all that the
// base trusts.
func keysFor(root fs.FS, s Source) (ring pgp.Ring, err error) {
	if s.Key != "" {
		ring.Add(s.Origin+": key of the source", []byte(s.Key))
		return ring, nil
	}
	var prints []string
	for _, by := range s.SignedBy {
		if strings.HasPrefix(by, "/") {
			addNamed(&ring, root, by)
		} else {
			prints = append(prints, strings.ToUpper(strings.TrimSuffix(by, "!")))
		}
	}
	if len(s.SignedBy) > 0 && len(prints) == 0 {
		return ring, nil
	}
	trusted, err := trustedKeys(root)
	if len(prints) > 0 {
		trusted.Keys = slices.DeleteFunc(trusted.Keys, func(e *openpgp.Entity) bool { return !hasFingerprint(e, prints) })
	}
	ring.Keys, ring.Notes = append(ring.Keys, trusted.Keys...), append(ring.Notes, trusted.Notes...)
	return ring, err
}

// addNamed reads a keyring by its absolute path in the base. If it is missing there, the keyring of its name in
// usr/share/keyrings counts, where distributions keep the originals.
func addNamed(ring *pgp.Ring, root fs.FS, name string) {
	for _, p := range []string{strings.TrimPrefix(path.Clean(name), "/"), path.Join("usr/share/keyrings", path.Base(name))} {
		if ring.AddFile(root, p) {
			return
		}
	}
	ring.Notes = append(ring.Notes, name+" does not exist in the base")
}

// trustedKeys reads the keys that count for every source without Signed-By.
func trustedKeys(root fs.FS) (ring pgp.Ring, err error) {
	names := []string{"etc/apt/trusted.gpg"}
	list, err := fs.ReadDir(root, "etc/apt/trusted.gpg.d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ring, fmt.Errorf("read trusted keys: %w", err)
	}
	for _, e := range list {
		if ext := path.Ext(e.Name()); ext == ".gpg" || ext == ".asc" {
			names = append(names, path.Join("etc/apt/trusted.gpg.d", e.Name()))
		}
	}
	for _, name := range names[:min(len(names), maxConfigs)] {
		ring.AddFile(root, name)
	}
	return ring, nil
}

func hasFingerprint(e *openpgp.Entity, prints []string) bool {
	return slices.Contains(prints, pgp.Fingerprint(e.PrimaryKey)) ||
		slices.ContainsFunc(e.Subkeys, func(k openpgp.Subkey) bool { return slices.Contains(prints, pgp.Fingerprint(k.PublicKey)) })
}
