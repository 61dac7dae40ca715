package main

import (
	"errors"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// against returns the matrix's reason against a cell, "" when the matrix says that it works. It asks the
// rules for pairs, the companion's limits and the limits for the exact kernel.
func against(m *matrix.Matrix, c *cell) (string, error) {
	s := matrix.Selection{
		Systems: []string{c.System}, Drivers: []string{c.Driver.version}, Archs: []string{arch}, Flavours: []string{c.Flavour}, NoPatches: c.Patches == "",
	}
	if c.Companion != nil {
		alone := *m
		alone.Companions = []matrix.Companion{*c.Companion}
		m, s.Companions = &alone, []string{c.Companion.Name}
	}
	targets, err := m.Select(s)
	no, ok := errors.AsType[*matrix.IncompatibleError](err)
	switch {
	case ok:
		return no.Rule + ": " + no.Reason, nil
	case err != nil:
		return "", err
	}
	d := targets[0].Driver
	kernel := distros.Kernel{Release: c.Kernel.Release, Version: c.Kernel.Version}
	err = recipe.CheckKernel(d, c.Kernel.Release)
	rule := "kernel limit"
	if err == nil {
		rule = driverinfo.KernelBroken
		err = recipe.CheckFlavours(d, kernel, []string{c.Flavour})
	}
	if err != nil {
		return rule + ": " + strings.TrimPrefix(err.Error(), "driver "+c.Driver.version+": "), nil
	}
	return "", nil
}
