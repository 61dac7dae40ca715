package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

const arch = "amd64"

// systems are those whose kernels are tried: of each the newest kernel of its usual series and flavour.
var systems = []string{"debian11", "debian12", "debian13"}

// driver is one that Debian packages.
type driver struct {
	version string
	home    string // the other systems get their sources from this system's packages
	debian  string // version of the packages in home
	infix   string // in the names of its packages: "tesla-418-"
	open    bool   // Debian packages the open modules too
	// The sources in the packages are patched by Debian. If false, the patches lie beside the sources and
	// neither driver-build nor this command applies them.
	patched bool
}

// drivers are those in the archives of these systems that the matrix has too: the drivers for data centre
// GPUs, and the last one for Fermi.
var drivers = []driver{
	{version: "418.226.00", home: "debian11", debian: "418.226.00-6~deb11u2", infix: "tesla-418-"},
	{version: "450.248.02", home: "debian11", debian: "450.248.02-7~deb11u1", infix: "tesla-450-"},
	{version: "470.256.02", home: "debian11", debian: "470.256.02-1~deb11u2", infix: "tesla-470-"},
	{version: "535.261.03", home: "debian12", debian: "535.261.03-1", open: true, patched: true},
	{version: "550.163.01", home: "debian13", debian: "550.163.01-2", open: true, patched: true},
	{version: "390.157", home: "debian11", debian: "390.157-1~deb11u1", infix: "legacy-390xx-"},
}

// kernel is a row of driver-build kernels -o json.
type kernel struct {
	Release string `json:"kernel"`
	Flavour string `json:"flavour"`
	Default bool   `json:"default"`
	Version string `json:"version"` // of the package: "6.1.192-2"
}

// cell is one compile and its result.
type cell struct {
	System  string
	Kernel  kernel
	Driver  driver
	Flavour string
	Patches string  // of the matrix, that the sources have, by name: "a, b"; "" for sources without them
	Rules   string  // the matrix's reason against the cell: "kernel-too-new: ..."; "" when the matrix says that it works
	Result  *result // nil: not compiled yet

	Companion *matrix.Companion // that is compiled against nvidia; nil: the driver's modules alone
}

func (c *cell) String() string {
	name := c.System + " " + c.Driver.version + " " + c.Flavour + " " + c.Kernel.Release
	if c.Patches != "" {
		name += " patched"
	}
	if c.Companion != nil {
		name += " with " + c.Companion.Name + "-" + c.Companion.Version
	}
	return name
}

// series returns the beginning of the kernel's release: "5.10".
func (c *cell) series() string {
	fields := strings.SplitN(c.Kernel.Release, ".", 3)
	return strings.Join(fields[:min(2, len(fields))], ".")
}

// The outcomes of a cell. Trouble is any failure except a compiler error: it proves nothing about the driver,
// and the next run tries again.
const (
	compiles = "compiles"
	fails    = "fails"
	trouble  = "trouble"
)

// result is what the work folder keeps of a cell.
type result struct {
	Outcome  string
	Error    string `json:",omitempty"` // the first error of the compiler, or a description of the trouble
	Compute  string `json:",omitempty"` // outcome for nvidia and nvidia-uvm alone, if another module failed
	Compiler string `json:",omitempty"` // "gcc 12.2.0"; "" when the modules were in driver-build's cache
	Source   string // where the sources are from: packages or archive
	Date     string // "2026-11-21"
	Seconds  int    // duration of the whole driver-build run
}

// cells lists what is to be compiled, by system, driver and flavour, and asks the matrix about each cell. The
// cells with companions are the last.
func (l *laboratory) cells(ctx context.Context) ([]*cell, error) {
	var all, companions []*cell
	for _, system := range systems {
		k, err := l.newest(ctx, system)
		if err != nil {
			return nil, err
		}
		for _, d := range drivers {
			for _, flavour := range d.flavours() {
				var c *cell
				for _, patches := range variants(l.matrix, d, flavour) {
					c = &cell{System: system, Kernel: k, Driver: d, Flavour: flavour, Patches: patches}
					if c.Rules, err = against(l.matrix, c); err != nil {
						return nil, err
					}
					all = append(all, c)
				}
				beside, err := withCompanions(l.matrix, c)
				if err != nil {
					return nil, err
				}
				companions = append(companions, beside...)
			}
		}
	}
	return append(all, companions...), nil
}

// variants returns the patches of the sources that are compiled: none, and those of the matrix if it has any.
func variants(m *matrix.Matrix, d driver, flavour string) []string {
	var names []string
	for _, known := range m.Drivers {
		for _, p := range known.Patches {
			if known.Version == d.version && slices.Contains(p.Flavours, flavour) {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	return []string{"", strings.Join(names, ", ")}
}

func (d driver) flavours() []string {
	if d.open {
		return []string{matrix.Proprietary, matrix.Open}
	}
	return []string{matrix.Proprietary}
}

// newest returns the kernel that --kernel latest means. It asks once; later commands name the kernel.
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
	var offered struct {
		Items []kernel `json:"items"`
	}
	if err := json.Unmarshal([]byte(out.stdout), &offered); err != nil {
		return k, fmt.Errorf("list the kernels of %s: %w", system, err)
	}
	for _, k := range offered.Items {
		if k.Default && k.Flavour == d.KernelFlavour(arch) {
			return k, nil
		}
	}
	return k, fmt.Errorf("driver-build kernels lists no kernel that %s installs", system)
}

// file returns the path of a cell's result.
func (l *laboratory) file(c *cell) string {
	return filepath.Join(l.work, "results", strings.ReplaceAll(c.String(), " ", "_")+".json")
}

// load reads the result of an earlier run, if there is one and it is not trouble.
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
