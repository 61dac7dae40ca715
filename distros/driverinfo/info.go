// Package driverinfo is the note that an image carries of its driver: which one it is, which kernels it compiles on, which
// rules its builder set aside. driver-build writes it, driver-entrypoint reads it on the node.
//
// It decides nothing about a node and looks at no kernel: it reads, checks and writes one small file, and compares a kernel
// release with the rule in it.
package driverinfo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

const (
	// Path is where the note is in an image, relative to its root.
	Path = "usr/share/nvidia-driver/driver.json"
	// Schema is the version of the note that this package writes, and the only one that it reads.
	Schema = 1

	maxBytes = 64 << 10 // a note has about 400 bytes
)

// The flavours of the kernel modules.
const (
	Proprietary = "proprietary" // the kernel/ sources
	Open        = "open"        // the kernel-open/ sources
)

// The rules that Overridden may name. The first two are the matrix's, for one pair of driver and system; KernelLimit is both
// of them at once, for an operator who sets the rule aside on a node.
const (
	KernelTooNew = "kernel-too-new"
	KernelTooOld = "kernel-too-old"
	KernelLimit  = "kernel-limit"
)

// Info says what an image holds.
type Info struct {
	Schema     int        `json:"schema"`
	Driver     string     `json:"driver"`               // "535.261.03"
	Branch     string     `json:"branch"`               // "R535"
	OS         string     `json:"os"`                   // id of the system in package distros: "debian12"
	Arch       string     `json:"arch"`                 // Go name: "amd64"
	Profile    string     `json:"profile"`              // "full" or "compute"
	Flavours   []string   `json:"flavours"`             // of the kernel modules that it can serve, the preferred one first
	Kernel     KernelRule `json:"kernel,omitzero"`      // kernels that the modules compile on
	Overridden []string   `json:"overridden,omitempty"` // names of the rules that were set aside, sorted
	ID         string     `json:"id"`                   // 64 hex digits: equal for images of equal content

	Toolchain   bool          `json:"toolchain"`             // compiler and sources are there: it can compile for other kernels
	Precompiled []Precompiled `json:"precompiled,omitempty"` // modules that are there, sorted
}

// Precompiled is one set of modules in an image.
type Precompiled struct {
	Kernel  string `json:"kernel"`  // as uname -r says it: "6.1.0-38-amd64"
	Flavour string `json:"flavour"` // Proprietary or Open
}

// ErrFormat says that a note is there but cannot be used. The image has to be built again.
var ErrFormat = errors.New("not a valid description of a driver image")

// Read reads the note of the image whose root is given. The error wraps fs.ErrNotExist when the image has none, ErrFormat
// when it is damaged or of another version of this software.
func Read(root fs.FS) (Info, error) {
	f, err := root.Open(Path)
	if err != nil {
		return Info{}, fmt.Errorf("read what the image says of its driver: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Info{}, fmt.Errorf("read what the image says of its driver: %w", err)
	}
	info, err := Decode(data)
	if err != nil {
		return Info{}, fmt.Errorf("/%s: %w: build the image again", Path, err)
	}
	return info, nil
}

// Decode reads the bytes of a note. Unknown fields are mistakes: writer and reader come in one image. Errors are ErrFormat.
func Decode(data []byte) (Info, error) {
	if len(data) > maxBytes {
		return Info{}, fmt.Errorf("%w: larger than %d bytes", ErrFormat, maxBytes)
	}
	var version struct{ Schema int }
	if err := json.Unmarshal(data, &version); err == nil && version.Schema != Schema {
		return Info{}, fmt.Errorf("%w: schema %d, this program reads %d", ErrFormat, version.Schema, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var info Info
	if err := d.Decode(&info); err != nil {
		return Info{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Info{}, fmt.Errorf("%w: something follows its end", ErrFormat)
	}
	if err := info.check(); err != nil {
		return Info{}, err
	}
	return info, nil
}

// Encode writes the note: the same for the same content, with a newline at its end. It refuses what Read would refuse.
func (i Info) Encode() ([]byte, error) {
	i.Schema = Schema
	i.Overridden = slices.Compact(slices.Sorted(slices.Values(i.Overridden)))
	i.Precompiled = slices.Clone(i.Precompiled)
	slices.SortFunc(i.Precompiled, comparePrecompiled)
	if err := i.check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write what the image says of its driver: %w", err)
	}
	return append(b, '\n'), nil
}

// Kernels are the releases that the image has modules for, each once, in the order of the note.
func (i Info) Kernels() []string {
	var releases []string
	for _, p := range i.Precompiled {
		if !slices.Contains(releases, p.Kernel) {
			releases = append(releases, p.Kernel)
		}
	}
	return releases
}

// Overrides says whether a rule was set aside.
func (i Info) Overrides(rule string) bool { return slices.Contains(i.Overridden, rule) }

// CheckKernel compares a kernel release with the rule of the image, unless the rule was set aside. The error is a
// *KernelError.
func (i Info) CheckKernel(release string) error {
	err := i.Kernel.Check(release)
	var limit *KernelError
	if !errors.As(err, &limit) {
		return err
	}
	limit.Driver = i.Driver
	if i.Overrides(KernelLimit) || i.Overrides(limit.Name()) {
		return nil
	}
	return limit
}
