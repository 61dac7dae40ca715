package apt

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/pgp"
)

const maxRelease = 16 << 20 // bytes of an InRelease file; Debian's largest is below 300 KiB

// release is the part of a Release file that this package uses.
type release struct {
	suite, codename string
	date, until     time.Time // until is zero without Valid-Until
	components      []string
	architectures   []string // empty: not stated
	// notAutomatic marks backports and experimental: only packages that no other repository has are taken.
	notAutomatic bool
	byHash       bool
	indexes      map[string]sum // Packages files by their path below the Release file
}

// sum is the digest and size that a file must have.
type sum struct {
	sha256 string // hex, lower case
	size   int64  // bytes
}

// parseRelease parses a Release file. Mistakes are distros.ErrIndex.
func parseRelease(text []byte) (*release, error) {
	p, err := dpkg.ParseParagraph(text)
	if err != nil {
		return nil, fmt.Errorf("%w: Release file: %w", distros.ErrIndex, err)
	}
	r := &release{suite: p.Get("Suite"), codename: p.Get("Codename"), indexes: map[string]sum{}}
	r.components = strings.Fields(p.Get("Components"))
	for i, c := range r.components {
		r.components[i] = path.Base(c) // old security archives name main "updates/main" but keep it under main
	}
	r.architectures = strings.Fields(p.Get("Architectures"))
	if p.Get("No-Support-for-Architecture-all") == "Packages" {
		// Debian lists binary-all, but its packages are also in binary-amd64.
		r.architectures = slices.DeleteFunc(r.architectures, func(a string) bool { return a == "all" })
	}
	r.notAutomatic, _ = truth(p.Get("NotAutomatic"))
	r.byHash, _ = truth(p.Get("Acquire-By-Hash"))
	for _, f := range []struct {
		name string
		into *time.Time
	}{{"Date", &r.date}, {"Valid-Until", &r.until}} {
		if v := p.Get(f.name); v != "" {
			if *f.into, err = parseDate(v); err != nil {
				return nil, fmt.Errorf("%w: Release file: field %s: %w", distros.ErrIndex, f.name, err)
			}
		}
	}
	return r, r.readSums(p.Get("SHA256"))
}

func (r *release) readSums(list string) error {
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 {
			return fmt.Errorf("%w: Release file: field SHA256: want digest, size and name, have %.80q", distros.ErrIndex, line)
		}
		if !strings.HasPrefix(path.Base(words[2]), "Packages") {
			continue
		}
		size, err := strconv.ParseInt(words[1], 10, 64)
		digest := strings.ToLower(words[0])
		if b, hexErr := hex.DecodeString(digest); err != nil || size < 0 || hexErr != nil || len(b) != 32 || !safePath(words[2]) {
			return fmt.Errorf("%w: Release file: field SHA256: bad entry %.120q", distros.ErrIndex, line)
		}
		r.indexes[words[2]] = sum{digest, size}
	}
	return nil
}

// parseDate parses the date format of Release files, which is always UTC.
func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{"Mon, _2 Jan 2006 15:04:05 UTC", "Mon, _2 Jan 2006 15:04:05 GMT", "Mon, _2 Jan 2006 15:04:05 -0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.60q is not a date such as \"Sat, 11 Jul 2026 10:16:37 UTC\"", s)
}

// check compares a Release file with the request and with the clock.
func (r *release) check(suite string, now time.Time, allowExpired bool) error {
	if !r.date.IsZero() && r.date.After(now.Add(24*time.Hour)) {
		return fmt.Errorf("%w: its Date, %s, is in the future; is this machine's clock right?", distros.ErrIndex, r.date.Format(time.RFC3339))
	}
	if !allowExpired && !r.until.IsZero() && now.After(r.until.Add(pgp.ClockSkew)) {
		return fmt.Errorf("%w: Valid-Until was %s, the mirror is %s behind; "+
			"an archive that is no longer maintained needs its expiry allowed", pgp.ErrExpired,
			r.until.Format(time.RFC3339), now.Sub(r.until).Round(time.Hour))
	}
	want := suite
	// "buster/updates" names itself buster; flat repositories have no name.
	if i := strings.LastIndexByte(suite, '/'); i >= 0 {
		want = suite[:i]
	}
	if strings.HasSuffix(suite, "/") || r.suite == "" && r.codename == "" {
		return nil
	}
	for _, have := range []string{r.suite, r.codename} {
		if have == want || have == suite {
			return nil
		}
	}
	return fmt.Errorf("%w: it is for %q (suite %q), not for %q", distros.ErrIndex, r.codename, r.suite, suite)
}
