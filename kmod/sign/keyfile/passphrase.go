package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxPassphrase bounds the file of a passphrase, in bytes.
const maxPassphrase = 4 << 10

// PassphraseFile returns the passphrase in a file, without the end of its line. The file is read when the
// passphrase is needed.
func PassphraseFile(path string) Passphrase {
	return func() (pass []byte, err error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if pass, err = io.ReadAll(io.LimitReader(f, maxPassphrase+1)); err != nil {
			return nil, err
		}
		if len(pass) > maxPassphrase {
			return nil, fmt.Errorf("%s is larger than %d bytes: it should hold a passphrase only", path, maxPassphrase)
		}
		return bytes.TrimRight(pass, "\r\n"), nil
	}
}
