//go:build !cgo

package pkcs11

import (
	"crypto"
	"errors"
	"io"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// Open returns an error: this program was built without cgo and cannot load a token's library.
func Open(text, _ string, pass keyfile.Passphrase) (*sign.Signer, io.Closer, error) {
	return nil, nil, refuse(text, pass)
}

// OpenKey returns an error, as Open does.
func OpenKey(text string, pass keyfile.Passphrase) (crypto.Signer, io.Closer, error) {
	return nil, nil, refuse(text, pass)
}

// refuse also names the faults of the URI and of the PIN, so that a user does not meet them one
// after the other.
func refuse(text string, pass keyfile.Passphrase) error {
	without := errors.New(
		"open the PKCS#11 key: this program was built without cgo, which tokens need: build it with CGO_ENABLED=1, or sign detached",
	)
	u, err := parse(text)
	if err != nil {
		return errors.Join(without, err)
	}
	_, err = u.pin(pass)
	return errors.Join(without, err)
}
