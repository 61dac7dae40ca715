package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// against returns the matrix's reason against a cell, "" when the matrix says that it works. It asks the
// rules for pairs and the limits for the exact kernel.
func against(m *matrix.Matrix, c *cell) (string, error) {
	_, err := m.Select(matrix.Selection{
		Systems: []string{c.System}, Drivers: []string{c.Driver.version}, Archs: []string{arch}, Flavours: []string{c.Flavour},
	})
	no, ok := errors.AsType[*matrix.IncompatibleError](err)
	switch {
	case ok:
		return no.Rule + ": " + no.Reason, nil
	case err != nil:
		return "", err
	}
	at := slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == c.Driver.version })
	kernel := distros.Kernel{Release: c.Kernel.Release, Version: c.Kernel.Version}
	err = recipe.CheckKernel(m.Drivers[at], c.Kernel.Release)
	rule := "kernel limit"
	if err == nil {
		rule = driverinfo.KernelBroken
		err = recipe.CheckFlavours(m.Drivers[at], kernel, []string{c.Flavour})
	}
	if err != nil {
		return rule + ": " + strings.TrimPrefix(err.Error(), "driver "+c.Driver.version+": "), nil
	}
	return "", nil
}
