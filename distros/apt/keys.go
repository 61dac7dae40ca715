package apt

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/distros/confdir"
	"github.com/driver-container/driver-container/distros/pgp"
)

// keysFor returns the keys that are trusted for a source: its own, or those that its Signed-By
// names, or all that the base trusts.
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
		trusted.Keys = slices.DeleteFunc(
			trusted.Keys,
			func(e *openpgp.Entity) bool { return !hasFingerprint(e, prints) },
		)
	}
	ring.Keys = append(ring.Keys, trusted.Keys...)
	ring.Notes = append(ring.Notes, trusted.Notes...)
	return ring, err
}

// addNamed reads a keyring by its absolute path in the base. If it is missing there, the keyring of
// its name in usr/share/keyrings counts, where distributions keep the originals.
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
	names, err := confdir.List(root, "etc/apt/trusted.gpg.d", ".gpg", ".asc")
	if err != nil {
		return ring, fmt.Errorf("read trusted keys: %w", err)
	}
	for _, name := range append([]string{"etc/apt/trusted.gpg"}, names...) {
		ring.AddFile(root, name)
	}
	return ring, nil
}

func hasFingerprint(e *openpgp.Entity, prints []string) bool {
	return slices.Contains(prints, pgp.Fingerprint(e.PrimaryKey)) ||
		slices.ContainsFunc(
			e.Subkeys,
			func(k openpgp.Subkey) bool { return slices.Contains(prints, pgp.Fingerprint(k.PublicKey)) },
		)
}
