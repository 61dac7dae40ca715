package keyfile

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxPassphrase bounds the file of a passphrase, in bytes.
const maxPassphrase = 4 << 10

// PassphraseFile returns the passphrase in a file, without the end of its line. The file is read when the
// passphrase is needed.
func PassphraseFile(path string) Passphrase {
	return func() (pass []byte, err error) {
		pass, err = bounded.File(path, maxPassphrase)
		if _, ok := errors.AsType[*bounded.TooLargeError](err); ok {
			err = fmt.Errorf("%w: it should hold a passphrase only", err)
		}
		return bytes.TrimRight(pass, "\r\n"), err
	}
}
