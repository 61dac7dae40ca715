package rpm

import (
	"fmt"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/confdir"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/redact"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// keyFolders are the folders in which bases store the keys that they trust.
var keyFolders = []string{"etc/pki/rpm-gpg", "usr/lib/rpm/gnupg/keys", "etc/pki/rpm-gpg-keys"}

// Keyring returns all keys that may have signed packages of the options' sources: those of the
// options, those in the base's folders for keys, and those of the sources, wherever in the base
// they are stored. Package.Keys says which of them count for a package.
func (o Options) Keyring() (pgp.Ring, error) {
	all := o.ring()
	if err := o.addTrusted(&all); err != nil {
		return all, err
	}
	sources, _, err := o.sources()
	if err != nil {
		return all, err
	}
	o.Keyrings = nil
	for _, s := range sources {
		if s.Key == "" && len(s.GPGKeys) == 0 {
			continue
		}
		more, err := o.keysFor(s)
		if err != nil {
			return all, err
		}
		all.Keys = append(all.Keys, more.Keys...)
		all.Notes = append(all.Notes, more.Notes...)
	}
	return all, nil
}

// ring returns the keys of the options.
func (o Options) ring() (r pgp.Ring) {
	for _, data := range o.Keyrings {
		r.Add("an additional keyring", data)
	}
	return r
}

// addTrusted adds the keys in the folders of the base.
func (o Options) addTrusted(r *pgp.Ring) error {
	for _, dir := range keyFolders {
		names, err := confdir.List(o.Root, dir)
		if err != nil {
			return fmt.Errorf("read trusted keys: %w", err)
		}
		for _, name := range names {
			r.AddFile(o.Root, name)
		}
	}
	return nil
}

// keysFor returns the keys that count for a source: its Key, otherwise the keys that it names,
// otherwise all keys that the base trusts; and always those of the options.
func (o Options) keysFor(s repoconf.Source) (pgp.Ring, error) {
	r := o.ring()
	if s.Key != "" {
		r.Add("key of source "+s.ID, []byte(s.Key))
		return r, nil
	}
	for _, name := range s.GPGKeys {
		if repoconf.IsRemote(name) ||
			!strings.HasPrefix(name, "file:") && !strings.HasPrefix(name, "/") {
			r.Notes = append(
				r.Notes,
				fmt.Sprintf(
					"gpgkey %s is not fetched, because nothing vouches for it: put that key into the base's "+
						"etc/pki/rpm-gpg and name it in gpgkey, or give it in the matrix",
					redact.URL(name),
				),
			)
			continue
		}
		clean := strings.TrimPrefix(
			path.Clean("/"+strings.TrimPrefix(strings.TrimPrefix(name, "file:"), "//")),
			"/",
		)
		if !r.AddFile(o.Root, clean) {
			r.Notes = append(r.Notes, fmt.Sprintf("gpgkey %s does not exist in the base", name))
		}
	}
	if len(s.GPGKeys) > 0 {
		return r, nil
	}
	return r, o.addTrusted(&r)
}
