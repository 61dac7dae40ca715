//go:build !cgo

package pkcs11

import (
	"errors"
	"io"

	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// Open returns an error: this program was built without cgo and cannot load a token's library.
func Open(text, _ string, pass keyfile.Passphrase) (*sign.Signer, io.Closer, error) {
	u, err := parse(text)
	if err == nil {
		_, err = u.pin(pass)
	}
	return nil, nil, errors.Join(errors.New("open the PKCS#11 key: this program was built without cgo, which tokens need: build it with CGO_ENABLED=1, or sign detached"), err)
}
