package kmod

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/kmod/sign"
)

type signature struct {
	present             bool
	signer, hash, keyID string
}

// readSignature returns what the appended signature claims. A damaged one, or one in the format of kernels
// before 4.3, is present without details: the kernel will refuse it and explains that better. Errors are read
// errors.
func readSignature(data io.ReaderAt, size int64) (signature, error) {
	_, der, err := sign.Split(data, size)
	switch {
	case errors.Is(err, sign.ErrMalformed), errors.Is(err, sign.ErrUnsupported):
		return signature{present: true}, nil
	case err != nil:
		return signature{}, fmt.Errorf("read the end of the file: %w", err)
	case der == nil:
		return signature{}, nil
	}
	d, err := sign.Describe(der)
	if err != nil { // present, and damaged
		return signature{present: true}, nil //nolint:nilerr // the missing details say it
	}
	id := d.Serial
	if d.KeyID != nil {
		id = d.KeyID
	}
	return signature{present: true, signer: d.Issuer, hash: d.Hash, keyID: sign.Colons(id)}, nil
}
