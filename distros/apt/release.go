package apt

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
)

const maxRelease = 16 << 20 // bytes of an InRelease file; Debian's largest is below 300 KiB

// release is the part of a Release file that this package uses.
type release struct {
	suite, codename string
	date, until     time.Time // zero: not stated
	components      []string
	architectures   []string // empty: not stated
	// notAutomatic marks backports and experimental: only packages that no other repository has are
	// taken.
	notAutomatic bool
	byHash       bool
	// Packages files, without their URLs, by their path below the Release file
	indexes map[string]fetch.File
}

// parseRelease parses a Release file. Like apt, it reads the first paragraph only, and goes on
// without a Date. Mistakes are distros.ErrIndex.
func parseRelease(text []byte) (*release, error) {
	r, err := readRelease(text)
	if err != nil {
		return nil, distros.BadIndex("Release file: %w", err)
	}
	return r, nil
}

func readRelease(text []byte) (*release, error) {
	var p dpkg.Paragraph
	for first, err := range dpkg.ReadParagraphs(bytes.NewReader(text)) {
		if err != nil {
			return nil, err
		}
		p = first
		break
	}
	r := &release{
		suite:    p.Get("Suite"),
		codename: p.Get("Codename"),
		indexes:  map[string]fetch.File{},
	}
	for c := range strings.FieldsSeq(p.Get("Components")) {
		// old security archives name main "updates/main" but keep it under main
		r.components = append(r.components, path.Base(c))
	}
	r.architectures = strings.Fields(p.Get("Architectures"))
	if slices.Contains(strings.Fields(p.Get("No-Support-for-Architecture-all")), "Packages") {
		// Debian lists binary-all, but its packages are also in binary-amd64.
		r.architectures = slices.DeleteFunc(
			r.architectures,
			func(a string) bool { return a == "all" },
		)
	}
	r.notAutomatic, _ = truth(p.Get("NotAutomatic"))
	r.byHash, _ = truth(p.Get("Acquire-By-Hash"))
	r.date, _ = parseDate(p.Get("Date"))
	if until := p.Get("Valid-Until"); until != "" {
		var err error
		r.until, err = parseDate(until)
		if err != nil {
			return nil, err
		}
	}
	for _, kind := range []string{"SHA256", "SHA512"} {
		err := r.readSums(kind, p.Get(kind))
		if err != nil {
			return nil, err
		}
	}
	if p.Get("SHA256")+p.Get("SHA512") == "" {
		return nil, errors.New(
			"it has no digests of the kinds SHA256 and SHA512; weaker ones (MD5Sum, SHA1) do not count",
		)
	}
	return r, nil
}

// readSums reads a list of digests of one kind. Each index has one digest, the first that is
// listed.
func (r *release) readSums(kind, list string) error {
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 {
			return fmt.Errorf("field %s: want digest, size and name, have %.80q", kind, line)
		}
		name := words[2]
		_, known := r.indexes[name]
		if known || !strings.HasPrefix(path.Base(name), "Packages") {
			continue
		}
		size, err := strconv.ParseUint(words[1], 10, 63)
		if err != nil {
			return fmt.Errorf("field %s: bad size in %.120q", kind, line)
		}
		r.indexes[name], err = fetch.NewFile(kind, words[0], int64(size)) //nolint:gosec // of 63 bits
		if err != nil {
			return fmt.Errorf("field %s: %s: %w", kind, name, err)
		}
	}
	return nil
}

// parseDate parses the date formats of Release files.
func parseDate(text string) (date time.Time, err error) {
	text = strings.Join(strings.Fields(text), " ")
	const usual = "Mon, 2 Jan 2006 15:04:05"
	asctime := "Mon Jan 2 15:04:05 2006" // of C, in UTC
	for _, form := range []string{usual + " UTC", usual + " GMT", usual + " Z", usual + " -0700", asctime} {
		date, err = time.Parse(form, text)
		if err == nil {
			return date.UTC(), nil
		}
	}
	return date, fmt.Errorf(
		"Valid-Until: %.60q is not a date such as \"Sat, 11 Jul 2026 10:16:37 UTC\"",
		text,
	)
}

// check compares a Release file with the request and with the clock.
func (r *release) check(suite string, now time.Time, allowExpired bool) error {
	if !r.date.IsZero() && r.date.After(now.Add(24*time.Hour)) {
		return distros.BadIndex(
			"its Date, %s, is in the future; is this machine's clock right?",
			r.date.Format(time.RFC3339),
		)
	}
	if !allowExpired && !r.until.IsZero() && now.After(r.until.Add(pgp.ClockSkew)) {
		return fmt.Errorf("%w: Valid-Until was %s, the mirror is %s behind; "+
			"an archive that is no longer maintained needs its expiry allowed", pgp.ErrExpired,
			r.until.Format(time.RFC3339), now.Sub(r.until).Round(time.Hour))
	}
	if strings.HasSuffix(suite, "/") || r.suite == "" && r.codename == "" {
		return nil // flat repositories have no name
	}
	// "buster/updates" names itself buster, and Pulp calls "jammy/site/7" jammy.
	for name := strings.TrimLeft(suite, "/"); name != "."; name = path.Dir(name) {
		if name == r.suite || name == r.codename {
			return nil
		}
	}
	return distros.BadIndex("it is for %q (suite %q), not for %q", r.codename, r.suite, suite)
}
