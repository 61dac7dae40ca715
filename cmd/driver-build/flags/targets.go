package flags

import (
	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Matrix is the file of the version matrix.
type Matrix struct{ File string }

// AddTo declares --matrix.
func (m *Matrix) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&m.File,
		"matrix",
		"",
		"`FILE` with the version matrix (default ./matrix.yaml, else the one in this program)",
	)
}

// Load reads the matrix: the file, the one in the current folder, or the embedded one. In drivers,
// as --driver has them, a version takes the place of each branch. What the user should know of them
// is printed.
func (m *Matrix) Load(a *session.App, drivers []string) (*matrix.Matrix, error) {
	loaded, err := matrix.ReadFile(m.File, drivercontainer.Matrix, drivercontainer.Patches)
	if err != nil {
		return nil, err
	}
	a.Notes(releases.Resolve(loaded, drivers)...)
	for _, driver := range drivers {
		a.Note(releases.Absent(loaded, driver))
	}
	return loaded, nil
}

// Targets are the flags that choose pairs of the matrix.
type Targets struct {
	Matrix    Matrix
	Selection matrix.Selection
}

// AddTo declares the flags.
func (t *Targets) AddTo(f *pflag.FlagSet) {
	s := &t.Selection
	f.StringSliceVar(&s.Systems, "os", nil, "operating `SYSTEM`, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(
		&s.Drivers,
		"driver",
		nil,
		"driver `VERSION`, such as 580.178.04, or a branch, such as 580: its newest in the matrix "+
			"(repeatable)",
	)
	f.StringSliceVar(
		&s.Archs,
		"arch",
		nil,
		"`ARCH`: amd64 or arm64 (repeatable; default amd64, of list both)",
	)
	f.StringSliceVar(
		&s.Flavours,
		"flavour",
		nil,
		"`FLAVOUR` of the kernel modules: proprietary or open (repeatable; default all of the driver)",
	)
	f.BoolVar(&s.All, "all", false, "every pair of the matrix that works")
	f.BoolVar(
		&s.AllowIncompatible,
		"allow-incompatible",
		false,
		"build against a compatibility rule, with a warning and a label",
	)
	f.BoolVar(
		&s.NoFabric,
		"no-fabric",
		false,
		"leave out the driver's components for NVSwitch and NVLink (fabric manager, NVLSM, IMEX, NSCQ, "+
			"NVSDM)",
	)
	session.Rare(f, func(f *pflag.FlagSet) {
		f.BoolVar(
			&s.NoPatches,
			"no-patches",
			false,
			"leave the sources of the kernel modules as they are: without the matrix's patches, and "+
				"without the kernels that only they allow",
		)
	})
	f.StringSliceVar(
		&s.Companions,
		"companions",
		nil,
		"`NAME` of kernel modules that are compiled with the driver's: nvidia-fs, gdrdrv, or all that "+
			"fit (repeatable; default none)",
	)
	t.Matrix.AddTo(f)
}

// AddArchTo declares --arch of a command that looks at one image of an index.
func AddArchTo(f *pflag.FlagSet, arch *string, usual, usage string) {
	*arch = usual
	f.Var(session.String(arch, session.Valid(matrix.CheckArch)), "arch", usage)
}

// Load reads the matrix that the targets are chosen from: see [Matrix.Load].
func (t *Targets) Load(a *session.App) (*matrix.Matrix, error) {
	return t.Matrix.Load(a, t.Selection.Drivers)
}

// SelectAllByDefault makes a selection without systems or without drivers mean every pair that is
// left.
func (t *Targets) SelectAllByDefault() {
	s := &t.Selection
	s.All = s.All || len(s.Systems) == 0 || len(s.Drivers) == 0
}
