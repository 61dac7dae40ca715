package lockfile

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
)

// Pins gives what is locked, with packages from a mirror; the digests stay. A mirror is what a plan takes:
// PREFIX=URL words, and a URL without a path, which replaces hosts. When asked is the same mirror that was
// locked with, its credentials are put back. What only a plan can tell (a URL with a path, which stands for
// repositories and not for files) is a *MismatchError.
func (e *Entry) Pins(mirror string, asked recipe.Request) (p recipe.Pins, err error) {
	m, err := distros.ParseMirror(mirror)
	if err != nil {
		return p, err
	}
	locked := e.Recipe.Asked.Mirror
	if asked.Mirror == locked {
		return e.Recipe.Moved(m.Login).Pins(), nil
	}
	host := func(address string) string {
		to, toErr := url.Parse(m.Bare)
		u, addressErr := url.Parse(address)
		if toErr != nil || addressErr != nil || to.Path != "" {
			err = &MismatchError{
				Target: e.Name(), Changes: []Change{{"mirror", cmp.Or(locked, "none"), asked.Mirror}},
				Err: errors.New("the lock knows addresses of files, not which repository each is of: give --mirror HOST/PATH=URL"),
			}
			return address
		}
		u.Scheme, u.Host, u.User = to.Scheme, to.Host, to.User
		return u.String()
	}
	moved := e.Recipe.Moved(func(address string) string {
		address, _ = m.Replace(address, host)
		return address
	})
	return moved.Pins(), err
}
