package distros

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/redact"
)

var (
	// ErrSources says that the configuration of package repositories cannot be understood or used.
	ErrSources = failure.New(failure.Step, "bad package sources")
	// ErrIndex says that a repository contradicts itself: content differs from what its signed or
	// first file says, or a file cannot be parsed.
	ErrIndex = failure.New(failure.Content, "inconsistent repository")
)

// BadSources returns ErrSources with what is wrong.
func BadSources(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSources, fmt.Errorf(format, args...))
}

// BadIndex returns ErrIndex with what is wrong.
func BadIndex(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrIndex, fmt.Errorf(format, args...))
}

// Mirror says by which addresses those of package repositories are replaced. The zero value
// replaces none.
type Mirror struct {
	Bare     string            // for addresses that begin with none of the prefixes; "": they stay
	prefixes map[string]string // a host, a host with a path, or a whole URL -> URL
}

// ParseMirror reads the words of a mirror, separated by blanks or commas: PREFIX=URL replaces
// PREFIX in addresses that begin with it, the longest one wins; a URL alone is for all others.
// Errors are ErrSources.
func ParseMirror(text string) (m Mirror, err error) {
	m.prefixes = map[string]string{}
	for _, word := range SplitList(text) {
		from, to, pair := strings.Cut(word, "=")
		if !pair || strings.Contains(from, "?") { // the = of a query does not separate
			from = ""
			to = word
		}
		if u, err := url.Parse(to); err != nil || u.Scheme == "" {
			return m, BadSources("mirror %q: want URL or PREFIX=URL", redact.URL(to))
		}
		switch to = strings.TrimSuffix(to, "/"); {
		case from != "":
			m.prefixes[strings.TrimSuffix(from, "/")] = to
		case m.Bare != "":
			return m, BadSources(
				"mirror %q: two URLs without a prefix; want HOST/PATH=URL for all but one",
				redact.URL(to),
			)
		default:
			m.Bare = to
		}
	}
	return m, nil
}

// SplitList splits a list whose items are separated by blanks, newlines or commas.
func SplitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
}

// URLs returns the addresses of the mirror.
func (m Mirror) URLs() []string {
	all := slices.Sorted(maps.Values(m.prefixes))
	if m.Bare != "" {
		all = append(all, m.Bare)
	}
	return all
}

// String returns the words without credentials.
func (m Mirror) String() string {
	var all []string
	for _, from := range slices.Sorted(maps.Keys(m.prefixes)) {
		all = append(all, from+"="+redact.URL(m.prefixes[from]))
	}
	if m.Bare != "" {
		all = append(all, redact.URL(m.Bare))
	}
	return strings.Join(all, " ")
}

// Replace returns the address on the mirror, and whether a rule is for it. bare gives it for Bare.
func (m Mirror) Replace(address string, bare func(string) string) (string, bool) {
	best := ""
	for p := range m.prefixes {
		if HasURLPrefix(address, p) && len(p) > len(best) {
			best = p
		}
	}
	switch {
	case best != "":
		return m.prefixes[best] + address[strings.Index(address, best)+len(best):], true
	case m.Bare == "" || address == "":
		return address, false
	}
	return bare(address), true
}

// ReplaceAll replaces the addresses of sources, of which some may be "". If there are any and no
// rule is for one of them, the error is ErrSources.
func (m Mirror) ReplaceAll(addresses []*string, bare func(string) string) error {
	var before []string
	matched := len(m.URLs()) == 0
	for _, address := range addresses {
		if *address == "" {
			continue
		}
		before = append(before, redact.URL(*address))
		to, ruled := m.Replace(*address, bare)
		matched = matched || ruled
		*address = to
	}
	if matched || len(before) == 0 {
		return nil
	}
	return BadSources(
		"mirror %q: none of the sources begins with it; they are %s",
		m,
		strings.Join(before, ", "),
	)
}

// Login puts user and password of the mirror into an address on it that has none.
func (m Mirror) Login(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return address
	}
	for _, place := range m.URLs() {
		p, err := url.Parse(place)
		if err != nil || p.User == nil || p.Scheme != u.Scheme || p.Host != u.Host {
			continue
		}
		u.User = p.User
		return u.String()
	}
	return address
}

// HasURLPrefix reports whether a URL begins with a prefix, which may lack the scheme and must end
// with a path element.
func HasURLPrefix(address, prefix string) bool {
	if _, after, ok := strings.Cut(address, "://"); ok && !strings.Contains(prefix, "://") {
		address = after
	}
	rest, ok := strings.CutPrefix(address, prefix)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '?')
}
