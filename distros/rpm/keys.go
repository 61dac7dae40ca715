package rpm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const maxKeyring = 4 << 20 // bytes of one file; SUSE's largest is below 10 KiB

// keyFolders are the folders in which bases store the keys that they trust.
var keyFolders = []string{"etc/pki/rpm-gpg", "usr/lib/rpm/gnupg/keys", "etc/pki/rpm-gpg-keys"}

// Keyring returns all keys that a base trusts: those in its folders for keys (etc/pki/rpm-gpg,
// usr/lib/rpm/gnupg/keys), those that its rpm database holds, which the caller passes, and the caller's extra
// keys, which must be readable. The notes name the files that hold no usable key.
func Keyring(root fs.FS, installedKeys [][]byte, extra ...[]byte) (rpmfile.Keyring, []string, error) {
	files, notes, err := trustedKeys(root, installedKeys)
	if err != nil {
		return rpmfile.Keyring{}, nil, err
	}
	all, err := rpmfile.ReadKeyring(extra...)
	if err != nil {
		return rpmfile.Keyring{}, nil, fmt.Errorf("additional keyrings: %w: %w", repoconf.ErrSources, err)
	}
	for _, data := range files {
		more, err := rpmfile.ReadKeyring(data)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		all = all.Add(more)
	}
	return all, notes, nil
}

// Keyring returns all keys that may have signed packages of the options' sources: those of the base, those of
// the sources, wherever in the base they are stored, and those of the options. Package.Keys says which of
// them count for a package.
func (o Options) Keyring() (rpmfile.Keyring, []string, error) {
	all, notes, err := Keyring(o.Root, nil, o.Keyrings...)
	if err != nil {
		return all, nil, err
	}
	sources, _, err := o.sources()
	if err != nil {
		return all, nil, err
	}
	o.Keyrings = nil
	for _, s := range sources {
		if s.Key == "" && len(s.GPGKeys) == 0 {
			continue
		}
		files, more, err := o.keysFor(s)
		if err != nil {
			return all, nil, err
		}
		notes = append(notes, more...)
		for _, data := range files {
			keys, err := rpmfile.ReadKeyring(data)
			if err != nil {
				notes = append(notes, fmt.Sprintf("source %s: %v", s.ID, err))
				continue
			}
			all = all.Add(keys)
		}
	}
	return all, notes, nil
}

// trustedKeys reads the files of keys that a base trusts.
func trustedKeys(root fs.FS, installed [][]byte) (files [][]byte, notes []string, err error) {
	files = append(files, installed...)
	if root == nil {
		return files, nil, nil
	}
	for _, dir := range keyFolders {
		names, err := repoconf.ListFiles(root, dir)
		if err != nil {
			return nil, nil, fmt.Errorf("read trusted keys: %w", err)
		}
		for _, name := range names {
			data, err := repoconf.ReadFile(root, path.Join(dir, name), maxKeyring)
			switch {
			case err != nil:
				// one unreadable file does not make the other keys untrusted
				notes = append(notes, fmt.Sprintf("%s: %v", path.Join(dir, name), err))
			case bytes.Contains(data, []byte("PRIVATE KEY BLOCK")) || len(data) == 0:
				notes = append(notes, path.Join(dir, name)+" holds no public key")
			default:
				files = append(files, data)
			}
		}
	}
	return files, notes, nil
}

// keysFor returns the files of keys that count for a source: its Key, otherwise the keys that it names,
// otherwise all keys that the base trusts; and always those of the options. The notes say which keys could
// not be read.
func (o Options) keysFor(s repoconf.Source) (files [][]byte, notes []string, err error) {
	files = slices.Clone(o.Keyrings)
	if s.Key != "" {
		return append(files, []byte(s.Key)), nil, nil
	}
	for _, name := range s.GPGKeys {
		if repoconf.IsRemote(name) || !strings.HasPrefix(name, "file:") && !strings.HasPrefix(name, "/") {
			notes = append(notes, fmt.Sprintf("gpgkey %s is not fetched, because nothing vouches for it: put that key into the base's "+
				"etc/pki/rpm-gpg and name it in gpgkey, or give it in the matrix", repoconf.HideSecrets(name)))
			continue
		}
		data, err := o.keyFile(name)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		files = append(files, data)
	}
	if len(s.GPGKeys) > 0 {
		return files, notes, nil
	}
	trusted, more, err := trustedKeys(o.Root, nil)
	return append(files, trusted...), append(notes, more...), err
}

// keyFile reads a key of the base by its absolute path.
func (o Options) keyFile(name string) ([]byte, error) {
	clean := strings.TrimPrefix(path.Clean("/"+strings.TrimPrefix(strings.TrimPrefix(name, "file:"), "//")), "/")
	if o.Root == nil {
		return nil, fmt.Errorf("gpgkey %s: no root file system to find it in", name)
	}
	data, err := repoconf.ReadFile(o.Root, clean, maxKeyring)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("gpgkey %s does not exist in the base", name)
	}
	return data, err
}

// fingerprints returns the fingerprints of a source's keys, one of which must sign each package, and notes
// with those files that hold no key added.
func fingerprints(files [][]byte, notes []string) ([]string, []string) {
	var all rpmfile.Keyring
	for _, data := range files {
		more, err := rpmfile.ReadKeyring(data)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		all = all.Add(more)
	}
	return all.Fingerprints(), notes
}

// trust returns the check of repomd.xml's signature with the keys in files.
func (o Options) trust(files [][]byte, notes []string) pgp.Trust {
	t := pgp.Trust{Notes: notes, Now: o.Now, AllowExpired: o.AllowExpired, Hint: "name one of the base with gpgkey, or give it in the matrix"}
	for _, data := range files {
		keys, err := pgp.ReadKeys(data)
		if err != nil {
			t.Notes = append(t.Notes, err.Error())
		}
		t.Keys = append(t.Keys, keys...)
	}
	return t
}
