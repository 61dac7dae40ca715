package rpmfile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/pgp"
)

// candidates returns the keys that may have made a signature. Primary keys without usage flags,
// which were made before 2005, may sign; subkeys need the flag for signing, and must have confirmed
// that they belong to their primary key.
func candidates(keys openpgp.EntityList, id uint64) (out []openpgp.Key) {
	for _, key := range keys.KeysById(id) {
		primary, _ := key.Entity.PrimarySelfSignature()
		if primary == nil || key.SelfSignature == nil ||
			key.SelfSignature.FlagsValid && !key.SelfSignature.FlagSign {
			continue
		}
		if key.PublicKey != key.Entity.PrimaryKey &&
			(!key.SelfSignature.FlagsValid || key.SelfSignature.EmbeddedSignature == nil) {
			continue
		}
		out = append(out, key)
	}
	return out
}

// usable returns an error if a key was not valid for signing at the time of the signature. The
// present time does not matter: packages are signed once and are installed years later, when the
// key may have expired.
func usable(key openpgp.Key, at time.Time) error {
	self, _ := key.Entity.PrimarySelfSignature()
	primary := key.Entity.PrimaryKey
	subkey := key.PublicKey != primary
	err := pgp.CheckLength(key.PublicKey)
	if err != nil {
		return err
	}
	if revoked(key, at) {
		return errors.New("it was revoked")
	}
	if primary.KeyExpired(self, at) || subkey && key.PublicKey.KeyExpired(key.SelfSignature, at) {
		return fmt.Errorf(
			"it was not valid on %s, when it signed (expired, or not yet made)",
			at.UTC().Format(time.DateOnly),
		)
	}
	return nil
}

// revoked reports whether a key was revoked at a time. It uses all revocations of the key, of its
// primary key and of its user name. A key that was replaced or retired was valid until then; a key
// that may have been stolen never was, because a thief can write any date.
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
