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
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/kmod"
)

// ManifestName is the name of the file in an entry that describes its modules.
const ManifestName = "manifest.json"

const (
	manifestSchema = 1
	maxManifest    = 4 << 20
	maxSetModules  = 32
	maxModule      = 1 << 30
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

// manifestModule has two digests. SHA256 identifies the module to other programs. Each use compares CRC64: it
// finds every accidental damage, and anyone who could change a module on purpose could change this file too.
// CRC64 costs 50 ms for a set of 70 MB on every machine; SHA-256 takes 2 s on a processor without
// instructions for it (emulated, or old).
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

// corruption is a fault of an entry that no retry repairs.
type corruption struct{ why string }

func (d *corruption) Error() string { return d.why }

// readManifest reads dir's manifest. Errors are *corruption or file errors.
func readManifest(dir string) (*manifest, error) {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	return parseManifest(raw)
}

func parseManifest(raw []byte) (*manifest, error) {
	var s manifestFile
	if err := strict(raw, &s); err != nil {
		return nil, &corruption{fmt.Sprintf("%s: %v", ManifestName, err)}
	}
	if sum := sha256.Sum256(s.Manifest); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, &corruption{ManifestName + " does not match its own digest"}
	}
	var m manifest
	if err := strict(s.Manifest, &m); err != nil {
		return nil, &corruption{fmt.Sprintf("%s: %v", ManifestName, err)}
	}
	if m.Schema != manifestSchema || len(m.Modules) == 0 || len(m.Modules) > maxSetModules {
		return nil, &corruption{fmt.Sprintf("%s has schema %d and %d modules", ManifestName, m.Schema, len(m.Modules))}
	}
	if err := m.Key.check(); err != nil {
		return nil, &corruption{fmt.Sprintf("%s: %v", ManifestName, err)}
	}
	for _, f := range m.Modules {
		if !moduleName().MatchString(f.Name) || f.Size <= 0 || f.Size > maxModule ||
			len(f.SHA256) != 2*sha256.Size || strings.Trim(f.SHA256, "0123456789abcdef") != "" {
			return nil, &corruption{fmt.Sprintf("%s has a bad entry for %q", ManifestName, f.Name)}
		}
	}
	return &m, m.checkCompanions()
}

// ParseManifest returns the set that the manifest of an entry describes, without the paths of its modules.
func ParseManifest(raw []byte) (*Set, error) {
	m, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	return m.set(""), nil
}

// checkCompanions checks that each companion of the key has either a module or a reason.
func (m *manifest) checkCompanions() error {
	if len(m.Omitted) > maxCompanions {
		return &corruption{fmt.Sprintf("%s has reasons for %d modules", ManifestName, len(m.Omitted))}
	}
	accounted := map[string]int{}
	for _, f := range m.Modules {
		accounted[f.Name]++
	}
	for _, o := range m.Omitted {
		if !moduleName().MatchString(o.Module) || o.Reason == "" || len(o.Reason) > maxReason {
			return &corruption{fmt.Sprintf("%s has a bad reason for the missing module %q", ManifestName, o.Module)}
		}
		accounted[o.Module]++
	}
	for _, id := range m.Key.Companions {
		name, _, _ := strings.Cut(id, " ")
		if accounted[name] != 1 {
			return &corruption{fmt.Sprintf("%s lists the companion %.40q with neither a module nor a reason, or with both", ManifestName, name)}
		}
	}
	return nil
}

// strict decodes one value and refuses unknown fields.
func strict(raw []byte, into any) error {
	if len(raw) > maxManifest {
		return errors.New("too large")
	}
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

// verify reads every module. Errors are *corruption, ctx's cause, or file errors.
func (m *manifest) verify(ctx context.Context, dir string) error {
	for _, f := range m.Modules {
		path := filepath.Join(dir, f.Name+".ko")
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return &corruption{f.Name + ".ko is missing"}
		}
		if err != nil {
			return err
		}
		crc, sizeMatches, err := fileCRC(ctx, file, f.Size)
		file.Close()
		if err != nil {
			return err
		}
		if !sizeMatches || fmt.Sprintf("%016x", crc) != f.CRC64 {
			return &corruption{f.Name + ".ko has changed since it was stored"}
		}
	}
	return nil
}

// fileCRC is the CRC-64 (ECMA) of a file; ok is false when the file has another size than this. The standard
// library's takes 40 to 75 ms for the 70 MB of a set; parts that are read at the same time save less than
// that, and nothing on a busy node.
func fileCRC(ctx context.Context, file *os.File, size int64) (crc uint64, ok bool, err error) {
	if info, err := file.Stat(); err != nil || info.Size() != size {
		return 0, false, err
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	read, err := copyContext(ctx, sum, io.LimitReader(file, size+1))
	return sum.Sum64(), read == size, err
}

func (m *manifest) set(dir string) *Set {
	s := &Set{Dir: dir, Key: m.Key, SigHash: m.SigHash, Certificate: m.Certificate, Omitted: m.Omitted}
	for _, f := range m.Modules {
		s.Modules = append(s.Modules, File{
			Name: f.Name, Path: filepath.Join(dir, f.Name+".ko"), SHA256: f.SHA256, Size: f.Size, Info: f.Info,
		})
	}
	return s
}

// readFunc is an io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// copyContext is io.Copy that ends with ctx.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(w, readFunc(func(p []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return r.Read(p)
	}), make([]byte, 256<<10))
}
