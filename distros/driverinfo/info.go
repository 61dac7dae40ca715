// Package driverinfo reads and writes the note in an image about its driver: which driver it is, on
// which kernels it compiles, and which rules its builder overrode. driver-build writes it,
// driver-entrypoint reads it on the node.
//
// It makes no decision about a node and does not examine the kernel: it reads, checks and writes
// one small file, and compares a kernel release with the rule in it.
package driverinfo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	// Path is the path of the note in an image, relative to its root.
	Path = "usr/share/nvidia-driver/driver.json"
	// Schema is the version of the note that this package writes, and the only one that it reads.
	Schema = 1

	// MaxBytes bounds a note: it has about 5 kB, most of them labels.
	MaxBytes = 256 << 10
)

// The flavours of the kernel modules.
const (
	Proprietary = "proprietary" // the kernel/ sources
	Open        = "open"        // the kernel-open/ sources
)

// The rules that Overridden may name. The first three are the matrix's. KernelLimit stands for all
// of them, for an operator who overrides the rule on a node.
const (
	KernelTooNew = "kernel-too-new"
	KernelTooOld = "kernel-too-old"
	KernelBroken = "kernel-broken"
	KernelLimit  = "kernel-limit"
)

// Description describes the content of an image.
type Description struct {
	Schema  int    `json:"schema"`
	Driver  string `json:"driver"`  // "535.261.03"
	Branch  string `json:"branch"`  // "R535"
	OS      string `json:"os"`      // id of the system in package distros: "debian12"
	Arch    string `json:"arch"`    // Go name: "amd64"
	Profile string `json:"profile"` // "full" or "compute"
	// Flavours are those of the kernel modules that the image can provide, the preferred one first.
	Flavours   []string   `json:"flavours"`
	Kernel     KernelRule `json:"kernel,omitzero"`      // kernels that the modules compile on
	Overridden []string   `json:"overridden,omitempty"` // names of the overridden rules, sorted
	// VGPU says whose licence a vGPU guest driver needs: one of VGPULicences. "": the driver is for
	// whole GPUs.
	VGPU string `json:"vgpu,omitempty"`
	ID   string `json:"id"` // 64 hex digits; images with equal content have equal IDs

	// highest version of CUDA that the driver runs natively: "12.2"; "" if that is not known
	CUDA       string     `json:"cuda,omitempty"`
	Advisories []Advisory `json:"advisories,omitempty"` // what is known of the release

	// Toolchain says that compiler and sources are in the image: it can compile for other kernels.
	Toolchain   bool          `json:"toolchain"`
	Precompiled []Precompiled `json:"precompiled,omitempty"` // sets of modules in the image, sorted
	// changes to NVIDIA's sources that are compiled, by name
	Patches []Patch `json:"patches,omitempty"`
	// modules of other projects, in the order of their names
	Companions []Companion `json:"companions,omitempty"`

	// Layers are the diff IDs of the layers below that of the note, the bottom one first. Note and
	// layers are the whole image. Empty: an older version made the image.
	Layers []string `json:"layers,omitempty"`
	// Configuration is that of the image without the list of diff IDs.
	Configuration map[string]any `json:"configuration,omitempty"`
}

// Precompiled is one set of modules in an image.
type Precompiled struct {
	Kernel  string `json:"kernel"`  // as in uname -r: "6.1.0-38-amd64"
	Flavour string `json:"flavour"` // Proprietary or Open
	// name and version of the distribution's package whose modules these are, signed by the
	// distribution; "": driver-build compiled them
	Package string `json:"package,omitempty"`
}

// ErrFormat says that a note exists but cannot be used. The image must be built again.
var ErrFormat = errors.New("not a valid description of a driver image")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// Read reads the note of the image with this root. The error wraps fs.ErrNotExist when the image
// has none, and ErrFormat when it is damaged or from another version of this software.
func Read(root fs.FS) (Description, error) {
	data, err := bounded.FSFile(root, Path, MaxBytes)
	if err != nil {
		return Description{}, fmt.Errorf("read what the image says of its driver: %w", err)
	}
	info, err := Decode(data)
	if err != nil {
		return Description{}, fmt.Errorf("/%s: %w: build the image again", Path, err)
	}
	return info, nil
}

// Decode parses the bytes of a note. Unknown fields are mistakes, because writer and reader are in
// one image. Errors are ErrFormat.
func Decode(data []byte) (Description, error) {
	if len(data) > MaxBytes {
		return Description{}, malformed("larger than %d bytes", MaxBytes)
	}
	version := struct{ Schema int }{Schema}
	_ = json.Unmarshal(data, &version) // a fault is found below
	if version.Schema != Schema {
		return Description{}, malformed("schema %d, this program reads %d", version.Schema, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var info Description
	if err := d.Decode(&info); err != nil {
		return Description{}, malformed("%w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Description{}, malformed("something follows its end")
	}
	if err := info.check(); err != nil {
		return Description{}, err
	}
	return info, nil
}

// Encode returns the note as bytes: equal for equal content, with a newline at the end. It refuses
// what Read refuses.
func (i Description) Encode() ([]byte, error) {
	i.Schema = Schema
	i.Overridden = slices.Compact(slices.Sorted(slices.Values(i.Overridden)))
	i.Precompiled = slices.Clone(i.Precompiled)
	slices.SortStableFunc(i.Precompiled, comparePrecompiled)
	i.Companions = slices.Clone(i.Companions)
	slices.SortStableFunc(
		i.Companions,
		func(a, b Companion) int { return strings.Compare(a.Name, b.Name) },
	)
	if err := i.check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write what the image says of its driver: %w", err)
	}
	if len(b) >= MaxBytes {
		return nil, malformed("larger than %d bytes", MaxBytes)
	}
	return append(b, '\n'), nil
}

// Kernels returns the releases that the image has modules for, each once, in the order of the note.
func (i Description) Kernels() []string {
	var releases []string
	for _, p := range i.Precompiled {
		if !slices.Contains(releases, p.Kernel) {
			releases = append(releases, p.Kernel)
		}
	}
	return releases
}

// Serves returns the flavours of the image's modules for a kernel, the preferred one first.
func (i Description) Serves(release string) (flavours []string) {
	for _, f := range i.Flavours {
		isOf := func(p Precompiled) bool { return p.Kernel == release && p.Flavour == f }
		if slices.ContainsFunc(i.Precompiled, isOf) {
			flavours = append(flavours, f)
		}
	}
	return flavours
}

// Branch returns the first number of a driver version, 0 if there is none.
func Branch(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// Overrides reports whether a rule was overridden.
func (i Description) Overrides(rule string) bool { return slices.Contains(i.Overridden, rule) }

// CheckKernel compares a kernel release with the rule of the image, unless the rule was overridden.
// The error is a *KernelError.
func (i Description) CheckKernel(release string) error {
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

// Patch is a change to the sources of the kernel modules of some flavours.
type Patch struct {
	Name     string   `json:"name"`
	SHA256   string   `json:"sha256"`
	Flavours []string `json:"flavours"`
}

// PatchNames returns what the sources of a flavour were changed with, for the identity of compiled
// modules: name and digest of each patch.
func (i Description) PatchNames(flavour string) (names []string) {
	for _, p := range i.Patches {
		if slices.Contains(p.Flavours, flavour) {
			names = append(names, p.Name+"@sha256:"+p.SHA256)
		}
	}
	return names
}
