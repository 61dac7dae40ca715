package lockfile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/strictjson"
)

// MaxSize bounds a file in bytes: a thousand images of two hundred packages each.
const MaxSize = 64 << 20

// ErrFormat means that a file is not a lock, that an earlier driver-build wrote it, or that it was
// damaged or merged badly.
var ErrFormat = errors.New("not a valid lock")

// ErrLater means that a later driver-build wrote the lock, with what this one would lose.
var ErrLater = errors.New("a lock of a later driver-build")

// Path is where the lock of a matrix is, unless file names it: beside the matrix, with the ending
// .lock.
func Path(file, matrixFile string) string {
	if file != "" {
		return file
	}
	matrixFile = cmp.Or(matrixFile, "matrix.yaml")
	return strings.TrimSuffix(matrixFile, filepath.Ext(matrixFile)) + ".lock"
}

// Read reads a file; want is that of Parse. A file that is not there is fs.ErrNotExist.
func Read(file string, want func(name string) bool) (*Lock, error) {
	data, err := bounded.File(file, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	text, err := textfile.Decode(data, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("read the lock %s: %w", file, err)
	}
	l, err := Parse(file, text, want)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	l.File = file
	l.SHA256 = hex.EncodeToString(sum[:])
	return l, nil
}

// earlier matches a lock of the first format, which was YAML.
var earlier = regexp.MustCompile(`(?m)^schema:\s*1\s*$`)

// file is a lock whose entries are not read yet.
type file struct {
	Schema int                        `json:"schema"`
	Images map[string]json.RawMessage `json:"images"`
}

// entry is an entry whose recipe is not read yet.
type entry struct {
	Digest  string          `json:"digest"`
	Kernels []string        `json:"kernels"`
	Recipe  json.RawMessage `json:"recipe"`
}

// Parse reads a file; name is for messages. It checks everything: a value that would be unusable
// later is ErrFormat now. Entries that want does not name are passed over, unread; nil wants all.
func Parse(name string, data []byte, want func(name string) bool) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		return nil, fmt.Errorf(
			"%s: %w: %w; driver-build lock --update writes it anew",
			name,
			ErrFormat,
			err,
		)
	}
	switch {
	case bytes.Contains(data, []byte("<<<<<<< ")):
		return nil, fmt.Errorf(
			"%s: %w: it holds the marks of a merge with conflicts: take one side and run driver-build lock",
			name,
			ErrFormat,
		)
	case earlier.Match(data):
		return fail(
			errors.New("an earlier driver-build wrote it, in a form that this one does not read"),
		)
	case len(data) > MaxSize:
		return fail(fmt.Errorf("it is larger than %d bytes", MaxSize))
	}
	doc, err := strictjson.Decode[file](data)
	if err != nil {
		return fail(err)
	}
	switch {
	case doc.Schema > Schema:
		return nil, fmt.Errorf(
			"%s: %w: its schema is %d, this program knows %d: use the driver-build that wrote it",
			name,
			ErrLater,
			doc.Schema,
			Schema,
		)
	case doc.Schema < Schema:
		return fail(fmt.Errorf("its schema is %d, this program knows %d", doc.Schema, Schema))
	}
	l := &Lock{Schema: Schema, Images: map[string]*Entry{}}
	for key, raw := range doc.Images {
		if want != nil && !want(key) {
			continue
		}
		e, err := parseEntry(key, raw)
		if err != nil {
			return fail(fmt.Errorf("%.100q: %w", key, err))
		}
		l.Images[key] = e
	}
	return l, nil
}

func parseEntry(key string, raw []byte) (e *Entry, err error) {
	parts, err := strictjson.Decode[entry](raw)
	if err != nil {
		return nil, err
	}
	e = &Entry{Digest: parts.Digest, Kernels: parts.Kernels}
	e.Recipe, err = recipe.Decode(parts.Recipe)
	if err != nil {
		return nil, err
	}
	if sum, err := e.sum(); err != nil || sum != e.Digest || e.Name() != key {
		return nil, errors.Join(
			errors.New(
				"it was changed after driver-build lock wrote it: take the file from version control again",
			),
			err,
		)
	}
	return e, nil
}

// Write writes the lock to a file, by the rule of package outfile: what was there stays until the
// new lock is on the disk.
func (l *Lock) Write(ctx context.Context, file string) error {
	data, err := l.Encode()
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	err = outfile.Write(ctx, file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

// Encode returns the bytes of the file: one package a line, so that a new version is one line of a
// diff.
func (l *Lock) Encode() ([]byte, error) {
	l.Schema = Schema
	for _, e := range l.Images {
		var err error
		e.Digest, err = e.sum()
		if err != nil {
			return nil, err
		}
	}
	var compact, b bytes.Buffer
	enc := json.NewEncoder(&compact)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, err
	}
	err := layout(&b, bytes.TrimSpace(compact.Bytes()), "\n")
	b.WriteByte('\n')
	return b.Bytes(), err
}

// layout writes compact JSON in lines: what holds a list of objects has a line for each member, all
// else is on one line.
func layout(b *bytes.Buffer, value []byte, newline string) error {
	list := bytes.HasPrefix(value, []byte("[{"))
	if !list && (value[0] != '{' || !bytes.Contains(value, []byte(`[{`))) {
		b.Write(value)
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return err
	}
	b.WriteByte(value[0])
	for separator := ""; d.More(); separator = "," {
		b.WriteString(separator + newline + " ")
		if !list {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, err := json.Marshal(token)
			if err != nil {
				return err
			}
			b.WriteString(string(key) + ": ")
		}
		var member json.RawMessage
		if err := d.Decode(&member); err != nil {
			return err
		}
		if err := layout(b, member, newline+" "); err != nil {
			return err
		}
	}
	b.WriteString(newline + string(value[len(value)-1:]))
	return nil
}
