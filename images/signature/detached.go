package signature

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/outfile"
)

// ListName is the name of the file that says what the files of an export are. Nothing reads it.
const ListName = "list.txt"

// Export writes into dir, which is made and must be empty, the messages that a signer in another place has to
// sign: each as <sha256>.payload, and a list of them. What the key has signed already is left out; key may be
// nil. It returns the number of messages.
func Export(dir string, r Request, key crypto.PublicKey) (int, error) {
	wanted, err := r.pending(key)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("export what is to be signed: %w", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return 0, errors.Join(err, fmt.Errorf("export what is to be signed: %s is not empty: give a new folder", dir))
	}
	var list strings.Builder
	done := map[string]bool{}
	for _, d := range wanted {
		message := d.message()
		name := messageName(message)
		if !done[name] {
			if err := writeFile(filepath.Join(dir, name+".payload"), message); err != nil {
				return 0, fmt.Errorf("export what is to be signed: %w", err)
			}
		}
		done[name] = true
		fmt.Fprintf(&list, "%s.payload  %s\n", name, d.about)
	}
	if err := writeFile(filepath.Join(dir, ListName), []byte(list.String())); err != nil {
		return 0, fmt.Errorf("export what is to be signed: %w", err)
	}
	return len(done), nil
}

func writeFile(path string, content []byte) error {
	return outfile.Replace(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// messageName is the SHA-256 of a message in hex, which is also what signers of digests have to sign.
func messageName(message []byte) string {
	sum := sha256.Sum256(message)
	return hex.EncodeToString(sum[:])
}

// Import returns a signer that has the signatures in dir: for each message of the request a file
// <sha256>.sig, raw or in base64. All of them must be there and must fit the key; the error names each one
// that does not.
func Import(dir string, r Request, key crypto.PublicKey) (Signer, error) {
	if key == nil {
		return nil, errors.New("import signatures: give the public key, with which they are verified")
	}
	wanted, err := r.pending(key)
	if err != nil {
		return nil, fmt.Errorf("import signatures: %w", err)
	}
	s := detached{key, map[string][]byte{}}
	var faults []error
	for _, d := range wanted {
		message := d.message()
		name := messageName(message)
		if s.signatures[name] != nil || len(faults) == maxFaults {
			continue
		}
		signature, err := readSignature(filepath.Join(dir, name+".sig"))
		if err == nil && !fits(key, message, signature) {
			err = fmt.Errorf("%s.sig: %w", name, ErrForeign)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("the %s: %w", d.about, err))
			continue
		}
		s.signatures[name] = signature
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("import signatures from %s: %w", dir, errors.Join(faults...))
	}
	return s, nil
}

// readSignature reads a signature, raw or in base64.
func readSignature(path string) ([]byte, error) {
	raw, err := bounded.File(path, maxOutput)
	if err != nil {
		return nil, err
	}
	signature, err := plainSignature(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return signature, nil
}

// detached is a signer whose signatures were made in another place.
type detached struct {
	key        crypto.PublicKey
	signatures map[string][]byte // by the SHA-256 of the message
}

func (s detached) Public() crypto.PublicKey { return s.key }

func (s detached) Sign(_ context.Context, message []byte) ([]byte, error) {
	name := messageName(message)
	if s.signatures[name] == nil {
		return nil, fmt.Errorf("%s.sig was not imported", name)
	}
	return s.signatures[name], nil
}
