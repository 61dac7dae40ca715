package pgp

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/bounded"
)

const maxKeyring = 4 << 20 // bytes of one file; Debian's, with all its old keys, is below 100 KiB

// Ring is the keys that are trusted for something.
type Ring struct {
	Keys  openpgp.EntityList
	Notes []string // files of keys that could not be used, and why
}

// Add adds the keys of a file. It may have copies of keys that are there: one copy can have a later
// expiry, another one a revocation, and both count. An unreadable file is a note, because it does
// not affect the trust in others.
func (r *Ring) Add(name string, data []byte) {
	keys, err := ReadKeys(data)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", name, err))
	}
	r.Keys = append(r.Keys, keys...)
}

// AddFile adds the keys of a file below root. It returns false if there is no such file.
func (r *Ring) AddFile(root fs.FS, name string) (found bool) {
	data, err := bounded.FSFile(root, name, maxKeyring)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", name, err))
	default:
		r.Add(name, data)
	}
	return true
}

// Fingerprints returns the fingerprints of the primary keys in capital hex, sorted.
func (r Ring) Fingerprints() []string {
	var all []string
	for _, e := range r.Keys {
		all = append(all, Fingerprint(e.PrimaryKey))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Fingerprint returns the fingerprint of a key in capital hex.
func Fingerprint(k *packet.PublicKey) string { return fmt.Sprintf("%X", k.Fingerprint) }

// minBits is the minimum length of an RSA or DSA key.
const minBits = 2048

// CheckLength returns an error for a key that is too short to count.
func CheckLength(k *packet.PublicKey) error {
	switch k.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoDSA:
		bits, err := k.BitLength()
		if err != nil || bits < minBits {
			return fmt.Errorf("it has %d bits, want at least %d", bits, minBits)
		}
	}
	return nil
}

// ReadKeys reads a file of public keys: binary, or any number of armoured blocks. It skips blocks
// with unsupported kinds of keys if there are others. A file without any readable key is an error.
func ReadKeys(data []byte) (openpgp.EntityList, error) {
	if len(data) > 12 && string(data[8:12]) == "KBXf" {
		return nil, errors.New("this is a GnuPG keybox; export its keys with gpg --export")
	}
	if !bytes.Contains(data, []byte("-----BEGIN PGP")) {
		keys, err := openpgp.ReadKeyRing(bytes.NewReader(data))
		if len(keys) == 0 {
			err = cmp.Or(err, errors.New("holds no key"))
		}
		return keys, err
	}
	var keys openpgp.EntityList
	var last error // of a block with unreadable keys
	// armor.Decode continues to read from a bufio.Reader, so several blocks work.
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		block, err := armor.Decode(in)
		switch {
		case errors.Is(err, io.EOF) && len(keys) > 0:
			return keys, nil
		case errors.Is(err, io.EOF) && last != nil:
			return nil, last
		case errors.Is(err, io.EOF):
			return nil, errors.New("holds no armoured key that is whole")
		case err != nil:
			return nil, fmt.Errorf("armoured key: %w", err)
		case block.Type != openpgp.PublicKeyType:
			return nil, fmt.Errorf("armoured %q, want %q", block.Type, openpgp.PublicKeyType)
		}
		more, err := openpgp.ReadKeyRing(block.Body)
		if err != nil {
			last = fmt.Errorf("armoured key: %w", err)
		}
		keys = append(keys, more...)
	}
}
