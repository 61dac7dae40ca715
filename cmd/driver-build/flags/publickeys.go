package flags

import (
	"crypto"
	"errors"
	"time"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// PublicKeys reads the files of a flag.
func PublicKeys(flag string, now time.Time, files ...string) (all []crypto.PublicKey, err error) {
	for _, file := range files {
		keys, err := keyfile.LoadPublic(file, now)
		for _, key := range keys {
			err = errors.Join(err, signature.CheckKey(key))
		}
		if err != nil {
			return nil, session.Usagef("%s %s: %w", flag, file, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}
