package kbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod"
)

// ManifestName is the name of the file in an entry that describes its modules.
const ManifestName = "manifest.json"

const (
	manifestSchema = 1
	maxManifest    = 4 << 20
	maxSetModules  = 32
	maxModule      = 1 << 30
	maxSet         = 2 << 30 // all modules
)

// manifest is the file that makes a folder an entry. It is the last file that is written.
type manifest struct {
	Schema      int              `json:"schema"`
	Key         Key              `json:"key"`
	Modules     []manifestModule `json:"modules"`
	SigHash     string           `json:"sigHash,omitempty"`
	Certificate []byte           `json:"certificate,omitempty"`
	Omitted     []Omission       `json:"omitted,omitempty"`
}

// manifestModule has two digests. SHA256 identifies the module to other programs. Each use compares
// CRC64: it finds every accidental damage, and anyone who could change a module on purpose could
// change this file too. CRC64 costs 50 ms for a set of 70 MB on every machine; SHA-256 takes 2 s on
// a processor without instructions for it (emulated, or old).
type manifestModule struct {
	Name   string    `json:"name"`
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256"`
	CRC64  string    `json:"crc64"`
	Info   kmod.Info `json:"info"`
}

// manifestFile is the content of the file: the manifest, and the digest of exactly its bytes.
type manifestFile struct {
	SHA256   string          `json:"sha256"`
	Manifest json.RawMessage `json:"manifest"`
}

// readManifest reads dir's manifest. Errors are *CorruptError or file errors.
func readManifest(dir string) (*manifest, error) {
	path := filepath.Join(dir, ManifestName)
	if err := regular(path); err != nil {
		return nil, err
	}
	raw, err := bounded.File(path, maxManifest)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = corrupt("%s: %v", ManifestName, err)
	}
	if err != nil {
		return nil, err
	}
	return parseManifest(raw)
}

// regular refuses links, which may lead out of the cache, and devices and pipes, of which an open
// alone can have an effect or no end.
func regular(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return corrupt("%s is no regular file", filepath.Base(path))
	}
	return nil
}

func parseManifest(raw []byte) (*manifest, error) {
	var s manifestFile
	var m manifest
	if err := strict(raw, &s); err != nil {
		return nil, corrupt("%s: %v", ManifestName, err)
	}
	if sum := sha256.Sum256(s.Manifest); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, corrupt("%s does not match its own digest", ManifestName)
	}
	if err := strict(s.Manifest, &m); err != nil {
		return nil, corrupt("%s: %v", ManifestName, err)
	}
	if err := m.Key.check(); err != nil {
		return nil, corrupt("%s: %v", ManifestName, err)
	}
	if m.Schema != manifestSchema || len(m.Modules) == 0 || len(m.Modules) > maxSetModules ||
		len(m.Omitted) > maxCompanions {
		return nil, corrupt("%s has schema %d and %d modules", ManifestName, m.Schema, len(m.Modules))
	}
	left := int64(maxSet)
	for _, f := range m.Modules {
		if left -= f.Size; !moduleName().MatchString(f.Name) || f.Size <= 0 || f.Size > maxModule ||
			left < 0 ||
			!hexSum().MatchString(f.SHA256) {
			return nil, corrupt("%s has a bad entry for %q", ManifestName, f.Name)
		}
	}
	for _, o := range m.Omitted {
		if !moduleName().MatchString(o.Module) || o.Reason == "" || len(o.Reason) > maxReason {
			return nil, corrupt(
				"%s has a bad reason for the missing module %q",
				ManifestName,
				o.Module,
			)
		}
	}
	return &m, nil
}

var hexSum = lazyregexp.New(`^[0-9a-f]{64}$`)

// ParseManifest returns the set that the manifest of an entry describes, without the paths of its
// modules.
func ParseManifest(raw []byte) (*Set, error) {
	m, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	return m.set(""), nil
}

// strict decodes one value and refuses unknown fields.
func strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after its end")
	}
	return nil
}

// seal returns the content of the file.
func (m *manifest) seal() ([]byte, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	// Marshal, not MarshalIndent: the digest covers the manifest's bytes as they are in the file.
	out, err := json.Marshal(manifestFile{SHA256: hex.EncodeToString(sum[:]), Manifest: raw})
	return append(out, '\n'), err
}

// verify reads every module. Errors are *CorruptError, ctx's cause, or file errors.
func (m *manifest) verify(ctx context.Context, dir string) error {
	for _, f := range m.Modules {
		path := filepath.Join(dir, f.Name+".ko")
		sum := crc64.New(crc64.MakeTable(crc64.ECMA))
		if err := regular(path); err != nil {
			return err
		}
		size, err := readAll(ctx, path, sum, f.Size+1)
		if err != nil {
			return err
		}
		if size != f.Size || fmt.Sprintf("%016x", sum.Sum64()) != f.CRC64 {
			return corrupt("%s.ko has changed since it was stored", f.Name)
		}
	}
	return nil
}

func (m *manifest) set(dir string) *Set {
	s := &Set{
		Dir:         dir,
		Key:         m.Key,
		SigHash:     m.SigHash,
		Certificate: m.Certificate,
		Omitted:     m.Omitted,
	}
	for _, f := range m.Modules {
		s.Modules = append(s.Modules, File{
			Name: f.Name, Path: filepath.Join(dir, f.Name+".ko"), SHA256: f.SHA256, Size: f.Size, Info: f.Info,
		})
	}
	return s
}

// readAll passes on what a file has, at most limit bytes of it, until ctx ends.
func readAll(ctx context.Context, path string, to io.Writer, limit int64) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(
		to,
		io.LimitReader(
			&bounded.Limited{
				Reader: f,
				Left:   limit,
				Stop:   func() error { return context.Cause(ctx) },
			},
			limit,
		),
	)
}
