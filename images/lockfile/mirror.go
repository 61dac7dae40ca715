package lockfile

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
)

// Pins gives what is locked, with packages from a mirror; the digests stay. A mirror is what a plan takes:
// PREFIX=URL words, and a URL without a path, which replaces hosts. When asked is the same mirror that was
// locked with, its credentials are put back. What only a plan can tell (a URL with a path, which stands for
// repositories and not for files) is a *MismatchError.
func (e *Entry) Pins(mirror string, asked recipe.Request) (recipe.Pins, error) {
	p := e.Recipe.Pins()
	words := strings.FieldsFunc(mirror, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
	if len(words) == 0 {
		return p, nil
	}
	locked := e.Recipe.Asked.Mirror
	var failed error
	move := func(list []distros.Package) []distros.Package {
		list = slices.Clone(list)
		for i := range list {
			if asked.Mirror == locked {
				list[i].URL = credentials(words, list[i].URL)
			} else if address, err := moved(words, list[i].URL); err != nil {
				failed = &MismatchError{Target: e.Name(), Changes: []Change{{"mirror", cmp.Or(locked, "none"), asked.Mirror}}, Err: err}
			} else {
				list[i].URL = address
			}
		}
		return list
	}
	p.Packages, p.Compiler, p.Driver, p.Companions = move(p.Packages), move(p.Compiler), move(p.Driver), move(p.Companions)
	for release, list := range p.Headers {
		p.Headers[release] = move(list)
	}
	return p, failed
}

// parts of a word: "" and URL, or PREFIX and URL.
func parts(word string) (prefix, target string) {
	prefix, target, pair := strings.Cut(word, "=")
	if !pair || strings.Contains(prefix, "?") {
		return "", strings.TrimSuffix(word, "/")
	}
	return strings.TrimSuffix(prefix, "/"), strings.TrimSuffix(target, "/")
}

// moved finds the address of a file on a mirror. The longest prefix wins.
func moved(words []string, address string) (string, error) {
	best, to, bare := "", "", ""
	for _, w := range words {
		prefix, target := parts(w)
		if prefix == "" {
			bare = target
		} else if below(address, prefix) && len(prefix) > len(best) {
			best, to = prefix, target
		}
	}
	if best != "" {
		return to + address[strings.Index(address, best)+len(best):], nil
	}
	if bare == "" {
		return address, nil
	}
	m, err := url.Parse(bare)
	if err != nil || m.Path != "" {
		return "", fmt.Errorf("the lock knows addresses of files, not which repository each is of: give --mirror HOST/PATH=URL")
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Scheme, u.Host, u.User = m.Scheme, m.Host, m.User
	return u.String(), nil
}

// below says whether an address begins with a prefix, with or without its scheme, at the end of a path
// element.
func below(address, prefix string) bool {
	if _, after, ok := strings.Cut(address, "://"); ok && !strings.Contains(prefix, "://") {
		address = after
	}
	rest, ok := strings.CutPrefix(address, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// credentials puts those of the mirror into an address on it.
func credentials(words []string, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	for _, w := range words {
		_, target := parts(w)
		if m, err := url.Parse(target); err == nil && m.User != nil && m.Host == u.Host && m.Scheme == u.Scheme {
			u.User = m.User
			return u.String()
		}
	}
	return address
}
