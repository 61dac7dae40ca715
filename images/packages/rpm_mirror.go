package packages

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// logins are the users and passwords of mirrors, by the beginning of the addresses that they are for: scheme
// and host. Package rpm keeps them out of addresses and adds them to its own requests. A recipe is built
// without package rpm's knowledge of mirrors, so its addresses hold them, as those of .deb packages do, and
// Recipe.Public removes them.
type logins map[string]*url.Userinfo

// mirrorLogins finds them in the words of a mirror, which rpm.WithMirror checks.
func mirrorLogins(mirror string) logins {
	found := logins{}
	for _, word := range strings.FieldsFunc(mirror, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
		address := word
		if prefix, after, pair := strings.Cut(word, "="); pair && !strings.Contains(prefix, "?") {
			address = after
		}
		if u, err := url.Parse(address); err == nil && u.User != nil {
			found[u.Scheme+"://"+u.Host] = u.User
		}
	}
	return found
}

// put adds the login of a mirror to an address on it.
func (l logins) put(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || l[u.Scheme+"://"+u.Host] == nil {
		return address
	}
	u.User = l[u.Scheme+"://"+u.Host]
	return u.String()
}

// secrets returns all logins as text, for a digest.
func (l logins) secrets() string {
	var b strings.Builder
	for _, place := range slices.Sorted(maps.Keys(l)) {
		b.WriteString(place + " " + l[place].String() + "\n")
	}
	return b.String()
}
