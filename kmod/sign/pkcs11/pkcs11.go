// Package pkcs11 signs modules and images with a key in a token: a hardware security module, a
// smart card, or SoftHSM. A PKCS#11 URI (RFC 7512) names the key, which never leaves the token. The
// PIN comes from a file or from a function, never from the URI.
//
// It does not make or change keys. Keys that require the PIN at every signature
// (CKA_ALWAYS_AUTHENTICATE, such as slot 9c of a YubiKey) do not work. It needs cgo, because the
// tokens' libraries are shared objects: without cgo Open returns an error.
package pkcs11

import (
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// ErrPIN says that the token refused the PIN. Open tries it only once, because tokens lock
// themselves after a few wrong PINs.
var ErrPIN = errors.New("the token refused the PIN")

// pin returns the PIN in the file that the URI's pin-source names, or else the one that pass
// returns.
func (u uri) pin(pass keyfile.Passphrase) (string, error) {
	if u.pinFile != "" {
		pass = keyfile.PassphraseFile(u.pinFile)
	}
	if pass == nil {
		return "", errors.New(
			"no PIN: name a file that has it with ?pin-source=file:/PATH in the URI, or give the passphrase",
		)
	}
	b, err := pass()
	if err != nil {
		return "", fmt.Errorf("get the PIN: %w", err)
	}
	defer clear(b)
	if len(b) == 0 && u.pinFile != "" {
		return "", fmt.Errorf("get the PIN: %s is empty", u.pinFile)
	}
	return string(b), nil
}
