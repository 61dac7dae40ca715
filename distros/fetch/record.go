package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

var plainKey = lazyregexp.New(`^[0-9a-z][0-9a-z.-]{0,159}$`)

// Kinds of records of this package.
const (
	sha512Record   = "sha512"   // content that was requested by its sha512
	documentRecord = "document" // the last content of a URL
)

// record is what a store knows under a key: a file of the folder keys.
type record struct {
	Blob  string          `json:"blob,omitempty"`  // sha256 of content in the store
	Value json.RawMessage `json:"value,omitempty"` // what else is known
	// check of the others, so that a damaged record counts as missing
	Sum string `json:"sum"`
}

func (r record) check(kind, key string) string {
	return sha256Of(fmt.Append(nil, kind, " ", key, " ", r.Blob, " ", string(r.Value)))[:16]
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// Lookup reads the record of a kind under a key into value, and returns the digest of its content,
// "" if it has none. A record that cannot be read, or whose content is not in the store, counts as
// missing.
func (s *Store) Lookup(kind, key string, value any) (blob string, ok bool) {
	path := s.record(kind, key)
	r, err := readRecord(path)
	if err != nil || r.Sum != r.check(kind, key) || r.Blob != "" && !s.Has(r.Blob) {
		return "", false
	}
	if value != nil && json.Unmarshal(r.Value, value) != nil {
		return "", false
	}
	s.use(path)
	return r.Blob, true
}

// Note writes a record, as a whole: of content in the store with the digest blob, or of none.
func (s *Store) Note(kind, key, blob string, value any) (err error) {
	r := record{Blob: blob}
	if value != nil {
		r.Value, err = json.Marshal(value)
		if err != nil {
			return fmt.Errorf("note in the cache: %w", err)
		}
	}
	r.Sum = r.check(kind, key)
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("note in the cache: %w", err)
	}
	return replaceFile(s.record(kind, key), text)
}

// record is the path of a record. A key that is no plain name is in the name by its digest.
func (s *Store) record(kind, key string) string {
	if !plainKey().MatchString(key) {
		key = sha256Of([]byte(key))
	}
	return filepath.Join(s.keys, kind+"-"+key+".json")
}

// replaceFile writes a small file as a whole.
func replaceFile(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
