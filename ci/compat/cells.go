package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

const arch = "amd64"

// systems are the kernels that are tried: of each the newest of its usual series and flavour.
var systems = []string{"debian11", "debian12", "debian13"}

// driver is one that Debian packages.
type driver struct {
	version string
	home    string // the system whose packages the sources are taken from for the others
	debian  string // their version there
	infix   string // in the names of its packages: "tesla-418-"
	open    bool   // Debian packages the open modules too
	patched bool   // the sources in the packages have Debian's patches; else these lie beside them and nobody here applies them
}

// drivers are those that the archives of these systems hold for data centre GPUs, and the matrix has.
var drivers = []driver{
	{version: "418.226.00", home: "debian11", debian: "418.226.00-6~deb11u2", infix: "tesla-418-"},
	{version: "450.248.02", home: "debian11", debian: "450.248.02-7~deb11u1", infix: "tesla-450-"},
	{version: "470.256.02", home: "debian11", debian: "470.256.02-1~deb11u2", infix: "tesla-470-"},
	{version: "535.261.03", home: "debian12", debian: "535.261.03-1", open: true, patched: true},
	{version: "550.163.01", home: "debian13", debian: "550.163.01-2", open: true, patched: true},
}

// kernel is a row of driver-build kernels -o json.
type kernel struct {
	Release string `json:"kernel"`
	Flavour string `json:"flavour"`
	Default bool   `json:"default"`
	Version string `json:"version"` // of the package: "6.1.192-2"
}

// cell is one compile, and what came of it.
type cell struct {
	System  string
	Kernel  kernel
	Driver  driver
	Flavour string
	Rules   string  // what the matrix says against it: "kernel-too-new: ..."; "" when it says that it works
	Result  *result // nil: not compiled yet
}

func (c *cell) String() string {
	return c.System + " " + c.Driver.version + " " + c.Flavour + " " + c.Kernel.Release
}

// series is what the kernel's release begins with: "5.10".
func (c *cell) series() string {
	fields := strings.SplitN(c.Kernel.Release, ".", 3)
	return strings.Join(fields[:min(2, len(fields))], ".")
}

// The outcomes of a cell. Trouble is anything but a compiler's word: it says nothing about the driver and is tried again.
const (
	compiles = "compiles"
	fails    = "fails"
	trouble  = "trouble"
)

// result is what is kept of a cell.
type result struct {
	Outcome  string
	Error    string `json:",omitempty"` // the first error of the compiler, or what the trouble is
	Compute  string `json:",omitempty"` // outcome for nvidia and nvidia-uvm alone, where another module was what failed
	Compiler string `json:",omitempty"` // "gcc 12.2.0"; "" when the modules were in driver-build's cache
	Source   string // where the sources are from: packages or archive
	Date     string // "2026-11-21"
	Seconds  int    // of the whole of driver-build
}

// cells lists what is to be compiled, by system, driver and flavour, and asks the matrix about each.
func (l *laboratory) cells(ctx context.Context) ([]*cell, error) {
	var all []*cell
	for _, system := range systems {
		k, err := l.newest(ctx, system)
		if err != nil {
			return nil, err
		}
		for _, d := range drivers {
			for _, flavour := range d.flavours() {
				c := &cell{System: system, Kernel: k, Driver: d, Flavour: flavour}
				if c.Rules, err = against(l.matrix, c); err != nil {
					return nil, err
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func (d driver) flavours() []string {
	if d.open {
		return []string{matrix.Proprietary, matrix.Open}
	}
	return []string{matrix.Proprietary}
}

// newest is the kernel that --kernel latest means. It is asked for once and named from then on.
func (l *laboratory) newest(ctx context.Context, system string) (k kernel, err error) {
	d, err := distros.Lookup(system)
	if err != nil {
		return k, err
	}
	base, err := l.base(ctx, system)
	if err != nil {
		return k, err
	}
	out, err := l.driverBuild(ctx, "kernels", "--os", system, "--matrix", l.matrixFile, "--base", base, "-o", "json", "--progress", "quiet")
	if err != nil {
		return k, fmt.Errorf("list the kernels of %s: %w: %s", system, err, out.stderr)
	}
	var offered []kernel
	if err := json.Unmarshal([]byte(out.stdout), &offered); err != nil {
		return k, fmt.Errorf("list the kernels of %s: %w", system, err)
	}
	for _, k := range offered {
		if k.Default && k.Flavour == d.KernelFlavour(arch) {
			return k, nil
		}
	}
	return k, fmt.Errorf("driver-build kernels lists no kernel that %s installs", system)
}

// file is where a cell's result is kept.
func (l *laboratory) file(c *cell) string {
	return filepath.Join(l.work, "results", strings.ReplaceAll(c.String(), " ", "_")+".json")
}

// load takes the result that an earlier run left, if it is one.
func (l *laboratory) load(c *cell) error {
	data, err := os.ReadFile(l.file(c))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r := new(result)
	if err := json.Unmarshal(data, r); err != nil {
		return fmt.Errorf("%s: %w; delete it", l.file(c), err)
	}
	c.Result = r
	return nil
}

func (l *laboratory) save(c *cell) error {
	data, err := json.MarshalIndent(c.Result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.file(c)), 0o755); err != nil {
		return err
	}
	return write(l.file(c), string(data)+"\n")
}
