package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxDocument bounds a document of a bundle, in bytes: registries accept manifests of up to 4 MiB.
const MaxDocument = 4 << 20

// Encode returns the list as bundle.json has it. The same list gives the same bytes. It fails when Decode
// would refuse them.
func (l *List) Encode() ([]byte, error) {
	l.Schema = schema
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("make the bundle's list: %w", err)
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("make the bundle's list: %w", err)
	}
	if len(raw) > MaxDocument {
		return nil, fmt.Errorf("make the bundle's list: it has %d bytes, at most %d are allowed: make several bundles", len(raw), MaxDocument)
	}
	return raw, nil
}

// Decode reads bundle.json strictly: every field is known, every digest is there once, and the bytes are
// those that Encode writes. Errors say what is wrong with it; they are of class ErrUnsound.
func Decode(raw []byte) (*List, error) {
	l, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: its list (bundle.json): %w", ErrUnsound, err)
	}
	return l, nil
}

func decode(raw []byte) (*List, error) {
	if len(raw) > MaxDocument {
		return nil, fmt.Errorf("it has more than %d bytes", MaxDocument)
	}
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, fmt.Errorf("it is malformed: %w", err)
	}
	if version.Schema != schema {
		return nil, fmt.Errorf("its version is %d, this program knows %d: use a newer driver-build", version.Schema, schema)
	}
	var l List
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("it is malformed: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is malformed: bytes follow it")
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if again, err := json.Marshal(l); err != nil || !bytes.Equal(again, raw) {
		return nil, errors.New("it is malformed: its bytes are not those that driver-build writes for this content")
	}
	return &l, nil
}
