package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

const arch = "amd64"

// systems are those whose kernels are tried: of each the newest kernel of its usual series and
// flavour.
var systems = []string{"debian11", "debian12", "debian13"}

// driver is one that Debian packages.
type driver struct {
	version string
	// the system that has its packages: other systems get their sources from there
	home     string
	flavours []string // that Debian packages
	debian   string   // the packages, as a matrix has them; "": matrix.yaml has them
}

var (
	closed = []string{matrix.Proprietary}
	both   = []string{matrix.Proprietary, matrix.Open}
)

// drivers are those in the archives of these systems that the matrix has too: the drivers for data
// centre GPUs, and the last one for Fermi.
var drivers = []driver{
	{version: "418.226.00", home: "debian11", flavours: closed},
	{
		version:  "450.248.02",
		home:     "debian11",
		flavours: closed,
		debian: `{systems: {debian11: 450.248.02-7~deb11u1}, archs: [amd64],
  packages: [libnvidia-tesla-450-cuda1, libnvidia-tesla-450-ml1, nvidia-tesla-450-smi], kernel: [nvidia-tesla-450-kernel-source]}`,
	},
	{version: "470.256.02", home: "debian11", flavours: closed},
	{version: "535.261.03", home: "debian12", flavours: both},
	{version: "550.163.01", home: "debian13", flavours: both},
	{version: "390.157", home: "debian11", flavours: closed},
}

// kernel is a row of driver-build kernels -o json.
type kernel struct {
	Release string `json:"kernel"`
	Flavour string `json:"flavour"`
	Default bool   `json:"default"`
	Version string `json:"version"` // of the package: "6.1.192-2"
	// Compiler is that of the system, "gcc 12.2.0"; "" when it is not known.
	Compiler string `json:"-"`
}

// cell is one compile and its result.
type cell struct {
	System  string
	Kernel  kernel
	Driver  driver
	Flavour string
	// of the matrix, that the sources have, by name: "a, b"; "" for sources without them
	Patches string
	// the matrix's reason against the cell: "kernel-too-new: ..."; "" when the matrix says that it
	// works
	Rules  string
	Result *result // nil: not compiled yet
}

// result is what the page keeps of a compile.
type result struct {
	Error  string // the first error of the compiler; "": it compiles
	Source string // where the sources are from: packages or archive
}

func (c *cell) String() string {
	return strings.TrimSpace(
		strings.Join(
			[]string{c.System, c.Kernel.Release, c.Driver.version, c.Flavour, c.Patches},
			" ",
		),
	)
}

// cellsOf lists what is to be compiled, by system, driver and flavour, with the results that a page
// has for the same kernels, and asks the matrix about each cell.
func cellsOf(
	m *matrix.Matrix,
	kernels map[string]kernel,
	known map[string]*result,
) ([]*cell, error) {
	var all []*cell
	var errs []error
	for _, system := range systems {
		for _, d := range drivers {
			for _, flavour := range d.flavours {
				for _, patches := range slices.Compact([]string{"", patchesOf(m, d, flavour)}) {
					c := &cell{
						System:  system,
						Kernel:  kernels[system],
						Driver:  d,
						Flavour: flavour,
						Patches: patches,
					}
					c.Result = known[c.String()]
					var err error
					c.Rules, err = against(m, c)
					all = append(all, c)
					errs = append(errs, err)
				}
			}
		}
	}
	return all, errors.Join(errs...)
}

// patchesOf returns the names of the matrix's patches for the sources of a driver.
func patchesOf(m *matrix.Matrix, d driver, flavour string) string {
	var names []string
	for _, known := range m.Drivers {
		for _, p := range known.Patches {
			if known.Version == d.version && slices.Contains(p.Flavours, flavour) {
				names = append(names, p.Name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// against returns the matrix's reason against a cell, "" when the matrix says that it works. It
// asks the rules for pairs and the limits for the exact kernel.
func against(m *matrix.Matrix, c *cell) (string, error) {
	targets, err := m.Select(matrix.Selection{
		Systems: []string{
			c.System,
		}, Drivers: []string{c.Driver.version}, Archs: []string{arch}, Flavours: []string{c.Flavour},
		NoPatches: c.Patches == "",
	})
	if no, ok := errors.AsType[*matrix.IncompatibleError](err); ok {
		return no.Rule + ": " + no.Reason, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c, err)
	}
	because := func(rule string, err error) string {
		return rule + ": " + strings.TrimPrefix(err.Error(), "driver "+c.Driver.version+": ")
	}
	driver := targets[0].Driver
	err = recipe.CheckKernel(driver, c.Kernel.Release)
	if err != nil {
		return because("kernel limit", err), nil
	}
	k := distros.Kernel{Release: c.Kernel.Release, Version: c.Kernel.Version}
	err = recipe.CheckFlavours(driver, k, []string{c.Flavour})
	if err != nil {
		return because(driverinfo.KernelBroken, err), nil
	}
	return "", nil
}
