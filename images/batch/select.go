package batch

import (
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// Select chooses the targets of the batch from a matrix. Without architectures they are for those
// of the kernels, else see [matrix.Selection.ArchsOf]: one rule for every command.
func (b *Batch) Select(m *matrix.Matrix) (err error) {
	s := &b.Selection
	if len(s.Archs) == 0 {
		s.Archs = archsOfKernels(b.Kernels.Specs)
	}
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return failure.Errorf(
			failure.Usage,
			"nothing to build: give --os and --driver, or --all; driver-build list shows what there is",
		)
	}
	b.Targets, err = m.Select(*s)
	if err != nil {
		return failure.Of(failure.Usage, err)
	}
	if len(b.Targets) == 0 {
		return failure.Errorf(
			failure.Usage,
			"no pair of the matrix is left: driver-build list says why",
		)
	}
	if b.Plan.Source != "" && len(b.Targets) > 1 {
		return failure.Errorf(
			failure.Usage,
			"--source is one archive: it needs one driver and one architecture",
		)
	}
	return b.CheckProfile()
}

// archsOfKernels are the architectures that the releases of kernels name, if each names one.
func archsOfKernels(kernels []string) (archs []string) {
	for _, release := range kernels {
		arch, ok := distros.ArchOfRelease(release)
		if !ok {
			return nil
		}
		archs = append(archs, arch)
	}
	return archs
}

// NamedGroups opens the lock and returns the images that the batch names. It returns none where
// only the repositories know which kernels are meant.
func (b *Batch) NamedGroups() ([]Group, error) {
	err := b.OpenLock()
	if err != nil || b.NeedsIndex() {
		return nil, err
	}
	return b.Groups(nil)
}

// LimitToCUDA removes the targets whose drivers do not run a release of CUDA.
func (b *Batch) LimitToCUDA(r releases.CUDA) error {
	b.Targets = slices.DeleteFunc(b.Targets, func(t matrix.Target) bool {
		return RunsCUDA(t.Driver, r).Support == releases.CUDANone
	})
	if len(b.Targets) > 0 {
		return nil
	}
	return failure.Errorf(
		failure.Usage,
		"--cuda %[1]s: no driver of the selection runs it: it needs %[2]s or newer; "+
			"driver-build list --cuda %[1]s shows all",
		r.Version,
		r.Floor,
	)
}
