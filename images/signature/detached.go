package signature

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
)

// ListName is the name of the file that says what the files of an export are. Nothing reads it.
const ListName = "list.txt"

// Export writes into dir, which is made and must be empty, the messages that a signer in another
// place has to sign: each as <sha256>.payload, and a list of them. What the key has signed already
// is left out; key may be nil. It returns the number of messages.
func Export(dir string, r Request, key crypto.PublicKey) (count int, err error) {
	defer failure.Wrap(&err, "export what is to be signed")
	wanted, err := r.pending(key)
	if err != nil {
		return 0, err
	}
	err = os.MkdirAll(dir, 0o755)
	if err != nil {
		return 0, err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	if len(there) > 0 {
		return 0, fmt.Errorf("%s is not empty: give a new folder", dir)
	}
	var list strings.Builder
	files := map[string][]byte{}
	for _, d := range wanted {
		name := messageName(d.message()) + ".payload"
		files[name] = d.message()
		fmt.Fprintf(&list, "%s  %s\n", name, d.about)
	}
	count = len(files)
	files[ListName] = []byte(list.String())
	for name, content := range files {
		err := outfile.Replace(filepath.Join(dir, name), func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return count, nil
}

// messageName is the SHA-256 of a message in hex, which is also what signers of digests have to
// sign.
func messageName(message []byte) string { return oci.HashOf(message).Hex }

// Imported is a signer whose signatures were made in another place: Dir has for each message a file
// <sha256>.sig, raw or in base64.
type Imported struct {
	Dir string
	Key crypto.PublicKey // must be known: the signatures are verified with it
}

// Public returns the key that was given.
func (s Imported) Public() crypto.PublicKey { return s.Key }

// Sign reads the signature. One that is missing is ErrUnsigned.
func (s Imported) Sign(_ context.Context, message []byte) ([]byte, error) {
	file := filepath.Join(s.Dir, messageName(message)+".sig")
	raw, err := bounded.File(file, maxOutput)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	if err != nil {
		return nil, err
	}
	signature, err := plainSignature(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return signature, nil
}
