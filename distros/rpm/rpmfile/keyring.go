package rpmfile

import (
	"fmt"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/pgp"
)

// minBits is the shortest RSA or DSA key that counts.
const minBits = 2048

// Keyring holds the public keys that may sign packages. The zero Keyring is empty.
type Keyring struct{ keys openpgp.EntityList }

// ReadKeyring reads files of public keys, each binary or with any number of armoured blocks. Keys of kinds that cannot be
// read are passed over if there are others in the same file.
func ReadKeyring(files ...[]byte) (Keyring, error) {
	var k Keyring
	for i, data := range files {
		keys, err := pgp.ReadKeys(data)
		if err != nil {
			return Keyring{}, fmt.Errorf("keyring %d of %d: %w: %w", i+1, len(files), ErrFormat, err)
		}
		k.keys = append(k.keys, keys...)
	}
	return k, nil
}

// Add returns a keyring with the keys of both. The same key may be there more than once: of its copies one can have a
// later expiry, another a revocation, and both count.
func (k Keyring) Add(more Keyring) Keyring {
	return Keyring{append(slices.Clip(k.keys), more.keys...)}
}

// Fingerprints lists the primary keys in capital hex, sorted.
func (k Keyring) Fingerprints() []string {
	var all []string
	for _, e := range k.keys {
		all = append(all, fingerprint(e.PrimaryKey))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func fingerprint(k *packet.PublicKey) string { return fmt.Sprintf("%X", k.Fingerprint) }

// candidates are the keys that may have made a signature. Keys without flags, as those of before 2005, may sign; subkeys
// must say so, and must have confirmed that they belong to their primary key.
func (k Keyring) candidates(id uint64) (out []openpgp.Key) {
	for _, key := range k.keys.KeysById(id) {
		primary, _ := key.Entity.PrimarySelfSignature()
		if primary == nil || key.SelfSignature == nil || key.SelfSignature.FlagsValid && !key.SelfSignature.FlagSign {
			continue
		}
		if key.PublicKey != key.Entity.PrimaryKey && (!key.SelfSignature.FlagsValid || key.SelfSignature.EmbeddedSignature == nil) {
			continue
		}
		out = append(out, key)
	}
	return out
}

// usable tells whether a key was good for signing when it signed: packages are signed once, and are still taken years
// after that, when the key may have expired.
func usable(key openpgp.Key, at time.Time) error {
	self, _ := key.Entity.PrimarySelfSignature()
	primary := key.Entity.PrimaryKey
	subkey := key.PublicKey != primary
	switch key.PublicKey.PubKeyAlgo {
	case packet.PubKeyAlgoRSA, packet.PubKeyAlgoRSASignOnly, packet.PubKeyAlgoDSA:
		if bits, err := key.PublicKey.BitLength(); err != nil || bits < minBits {
			return fmt.Errorf("%w: it has %d bits, want at least %d", ErrKey, bits, minBits)
		}
	}
	if revoked(key, at) {
		return fmt.Errorf("%w: it was revoked", ErrKey)
	}
	if primary.KeyExpired(self, at) || subkey && key.PublicKey.KeyExpired(key.SelfSignature, at) {
		return fmt.Errorf("%w: it was not valid on %s, when it signed (expired, or not yet made)", ErrKey, at.UTC().Format(time.DateOnly))
	}
	return nil
}

// revoked looks at all revocations of a key, of its primary key and of the name it goes by. A key that was replaced or
// given up was good until then; one that may have been stolen never is, since a thief can write any date.
func revoked(key openpgp.Key, at time.Time) bool {
	all := slices.Clone(key.Entity.Revocations)
	if key.PublicKey != key.Entity.PrimaryKey {
		all = append(all, key.Revocations...)
	}
	if _, identity := key.Entity.PrimarySelfSignature(); identity != nil && identity.Revoked(at) {
		return true
	}
	return slices.ContainsFunc(all, func(r *packet.Signature) bool {
		why := r.RevocationReason
		orderly := why != nil && (*why == packet.KeySuperseded || *why == packet.KeyRetired)
		return !orderly || !r.CreationTime.After(at)
	})
}
