package apt

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/distros/pgp"
)

const maxKeyring = 4 << 20 // bytes; Debian's, with all its old keys, is below 100 KiB

// keyStore reads the keys that a base trusts.
type keyStore struct {
	root  fs.FS // nil: none
	extra [][]byte
}

// keysFor returns the keys that are trusted for a source: its own, or those that its Signed-By names, or all
// that the base trusts; and always the additional ones of the caller. If a file named by Signed-By is
// missing, keysFor looks for its name in usr/share/keyrings, where distributions keep the originals. notes
// says what was skipped and why.
func (k keyStore) keysFor(s Source) (keys openpgp.EntityList, notes []string, err error) {
	for i, data := range k.extra {
		more, err := pgp.ReadKeys(data)
		if err != nil {
			return nil, nil, fmt.Errorf("additional keyring %d: %w: %w", i+1, ErrSources, err)
		}
		keys = append(keys, more...)
	}
	if s.Key != "" {
		more, err := pgp.ReadKeys([]byte(s.Key))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: key of the source: %w: %w", s.Origin, ErrSources, err)
		}
		return append(keys, more...), nil, nil
	}
	var prints []string
	for _, by := range s.SignedBy {
		if !strings.HasPrefix(by, "/") {
			prints = append(prints, strings.ToUpper(strings.TrimSuffix(by, "!")))
			continue
		}
		more, err := k.named(by)
		if err != nil {
			notes = append(notes, err.Error())
		}
		keys = append(keys, more...)
	}
	if len(s.SignedBy) > 0 && len(prints) == 0 {
		return keys, notes, nil
	}
	trusted, more, err := k.trusted()
	if err != nil {
		return nil, nil, err
	}
	if len(prints) > 0 {
		trusted = slices.DeleteFunc(trusted, func(e *openpgp.Entity) bool { return !hasFingerprint(e, prints) })
	}
	return append(keys, trusted...), append(notes, more...), nil
}

// named reads a keyring by its absolute path in the base.
func (k keyStore) named(name string) (openpgp.EntityList, error) {
	if k.root == nil {
		return nil, fmt.Errorf("no root file system to find %s in", name)
	}
	for _, p := range []string{strings.TrimPrefix(path.Clean(name), "/"), path.Join("usr/share/keyrings", path.Base(name))} {
		data, err := readFile(k.root, p, maxKeyring)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		keys, err := pgp.ReadKeys(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		return keys, nil
	}
	return nil, fmt.Errorf("%s does not exist in the base", name)
}

// trusted reads the keys that count for every source without Signed-By.
func (k keyStore) trusted() (keys openpgp.EntityList, notes []string, err error) {
	if k.root == nil {
		return nil, nil, nil
	}
	names := []string{"etc/apt/trusted.gpg"}
	list, err := fs.ReadDir(k.root, "etc/apt/trusted.gpg.d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read trusted keys: %w", err)
	}
	for _, e := range list {
		if ext := path.Ext(e.Name()); ext == ".gpg" || ext == ".asc" {
			names = append(names, path.Join("etc/apt/trusted.gpg.d", e.Name()))
		}
	}
	for _, name := range names[:min(len(names), maxConfigs)] {
		data, err := readFile(k.root, name, maxKeyring)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
			continue
		}
		var more openpgp.EntityList
		if err == nil {
			more, err = pgp.ReadKeys(data)
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", name, err)) // one unreadable file does not affect the trust in the others
		}
		keys = append(keys, more...)
	}
	return keys, notes, nil
}

func hasFingerprint(e *openpgp.Entity, prints []string) bool {
	match := func(fingerprint []byte) bool { return slices.Contains(prints, fmt.Sprintf("%X", fingerprint)) }
	return match(e.PrimaryKey.Fingerprint) ||
		slices.ContainsFunc(e.Subkeys, func(k openpgp.Subkey) bool { return match(k.PublicKey.Fingerprint) })
}
