// Package flags is the flags that several commands of driver-build have: which targets are meant, where their
// content comes from, where images go, what compiles and who signs. A type declares its flags with AddTo and
// checks their values before anything is read or written.
package flags

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/releases"
)

// Selection says which targets of which matrix are meant.
type Selection struct {
	matrix.Selection
	File string // of the matrix
}

// AddTo declares the flags.
func (s *Selection) AddTo(f *pflag.FlagSet) {
	f.StringSliceVar(&s.Systems, "os", nil, "operating system, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(&s.Drivers, "driver", nil, "driver version, such as 580.178.04, or a branch, such as 580: its newest in the matrix (repeatable)")
	f.StringSliceVar(&s.Archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default amd64)")
	f.StringSliceVar(&s.Flavours, "flavour", nil, "kernel module sources: proprietary or open (repeatable; default all of the driver)")
	f.BoolVar(&s.All, "all", false, "every pair of the matrix that works")
	f.BoolVar(&s.AllowIncompatible, "allow-incompatible", false, "build against a compatibility rule, with a warning and a label")
	f.BoolVar(&s.NoFabric, "no-fabric", false, "leave out the driver's components for NVSwitch and NVLink (fabric manager, NVLSM, IMEX, NSCQ, NVSDM)")
	f.BoolVar(&s.NoPatches, "no-patches", false, "leave the sources of the kernel modules as they are: without the matrix's patches, and without the kernels that only they allow")
	f.StringSliceVar(&s.Companions, "companions", nil, "kernel modules that are compiled with the driver's: nvidia-fs, gdrdrv, or all that fit (repeatable; default none)")
	s.AddMatrix(f)
}

// AddMatrix declares --matrix alone.
func (s *Selection) AddMatrix(f *pflag.FlagSet) {
	f.StringVar(&s.File, "matrix", "", "FILE with the version matrix (default ./matrix.yaml, else the one in this program)")
}

// Load reads the matrix: the file given, the one in the current folder, or the embedded one. For a branch that
// --driver names it chooses the version, and says which.
func (s *Selection) Load(a *session.App) (*matrix.Matrix, error) {
	m, err := batch.ReadMatrix(s.File, drivercontainer.Matrix, drivercontainer.Patches)
	if err == nil {
		a.Notes(releases.Resolve(m, s.Drivers)...)
	}
	return m, err
}

// WholeMatrix makes a selection without systems or without drivers mean every pair that is left.
func (s *Selection) WholeMatrix() { s.All = s.All || len(s.Systems) == 0 || len(s.Drivers) == 0 }

// ofKernels are the architectures that the releases of kernels name, if each names one.
func ofKernels(kernels []string) (archs []string) {
	for _, release := range kernels {
		arch, ok := distros.ArchOfRelease(release)
		if !ok {
			return nil
		}
		archs = append(archs, arch)
	}
	return archs
}

// Batch reads the matrix and chooses the targets from it. Without --arch they are for the architectures of
// the kernels, else see [matrix.Selection.ArchsOf]: one rule for every command.
func (s *Selection) Batch(a *session.App, kernels []string) (m *matrix.Matrix, b batch.Batch, err error) {
	if m, err = s.Load(a); err != nil {
		return nil, b, err
	}
	if len(s.Archs) == 0 {
		s.Archs = ofKernels(kernels)
	}
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return nil, b, session.Usagef("nothing to build: give --os and --driver, or --all; driver-build list shows what there is")
	}
	b = batch.Batch{Selection: s.Selection, Given: batch.Given{MatrixFile: s.File}}
	if b.Targets, err = m.Select(s.Selection); err != nil {
		return nil, b, session.Usage(err)
	}
	if len(b.Targets) == 0 {
		return nil, b, session.Usagef("no pair of the matrix is left: driver-build list says why")
	}
	return m, b, nil
}

// Mirror declares --mirror.
func Mirror(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "mirror", "", "package mirror instead of the addresses in the base's configuration: URL or PREFIX=URL")
}

// Sources says where the base, the packages and the driver come from.
type Sources struct{ batch.Sources }

// AddTo declares --base and --mirror.
func (s *Sources) AddTo(f *pflag.FlagSet) {
	f.StringVar(&s.Base, "base", "", "base image instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	Images(f, "base")
	Mirror(f, &s.Mirror)
}

// AddSource declares --source.
func (s *Sources) AddSource(f *pflag.FlagSet) {
	f.StringVar(&s.Source, "source", "", "URL or FILE of the driver's archive; the row's checksum still applies")
}

// Lock declares --lock of commands that read a lock.
func Lock(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "lock", "", "lock to go by: FILE or none (default: matrix.lock beside matrix.yaml, where it is there)")
}

// Repository declares --repository of commands that look for images in a registry.
func Repository(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "repository", "", "REGISTRY/PATH to look for images in (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
}

// Content says what the images should hold that a registry is asked for.
type Content struct {
	Profile  string
	Programs Programs
}

// AddTo declares the flags.
func (c *Content) AddTo(f *pflag.FlagSet) {
	f.StringVar(&c.Profile, "profile", "", "full, compute, cuda, cuda-tu10x or cuda-ga10x (default: the matrix's)")
	c.Programs.AddTo(f)
}

// Programs says which programs of this project images hold.
type Programs struct {
	Entrypoint   string
	AllowMissing bool
}

// AddTo declares the flags.
func (p *Programs) AddTo(f *pflag.FlagSet) {
	f.StringVar(&p.Entrypoint, "entrypoint", "", "FILE: driver-entrypoint of the images (default: the one of this version)")
	f.BoolVar(&p.AllowMissing, "allow-missing-programs", false, "leave out driver-probe and driver-evict, with a warning, where they are neither here nor can be made")
}

// Find returns the programs for the targets, and prints a warning for each that the images will lack.
func (p *Programs) Find(ctx context.Context, a *session.App, targets []matrix.Target) (batch.Programs, error) {
	programs := a.Programs(ctx, p.Entrypoint, p.AllowMissing)
	lacks, err := batch.CheckPrograms(programs, targets)
	for _, text := range lacks {
		fmt.Fprintln(a.Stderr, "warning: "+text)
	}
	return programs, err
}

// Format declares -o of a command that prints a table or JSON.
func Format(f *pflag.FlagSet, value *string) {
	f.StringVarP(value, "format", "o", "table", "table or json")
}

// CheckFormat checks the value of Format's flag.
func CheckFormat(format string) error {
	if format != "table" && format != "json" {
		return session.Usagef("-o %q is not known: use table or json", format)
	}
	return nil
}

// KernelFrom declares --kernel-from.
func KernelFrom(f *pflag.FlagSet, to *[]string) {
	f.StringArrayVar(to, "kernel-from", nil, "image with headers and compiler to compile in instead of packages: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE (repeatable)")
	Images(f, "kernel-from")
}

// imageValue is the value of a flag that names images.
type imageValue struct{ pflag.Value }

func (v imageValue) Set(text string) error { return v.Value.Set(oci.Named(text)) }

// Images says that flags name images, as arguments do.
func Images(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Value = imageValue{flag.Value}
	}
}

// Kernels says for which kernels modules are compiled ahead of time, and what else goes in.
type Kernels struct{ batch.Kernels }

// AddTo declares the flags.
func (k *Kernels) AddTo(f *pflag.FlagSet) {
	f.StringSliceVar(&k.Specs, "kernel", nil, "compile the modules for a kernel ahead of time: its release (uname -r), latest, latest:N or all (repeatable)")
	KernelFrom(f, &k.From)
	f.StringSliceVar(&k.Flavours, "kernel-flavour", nil, "kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)")
	f.StringSliceVar(&k.Modules, "modules", nil, "with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the sources offer)")
	f.BoolVar(&k.Together, "one-image", false, "with --kernel, one image <driver>-<os> for all kernels instead of one <driver>-<kernel>-<os> each")
	f.BoolVar(&k.Toolchain, "with-toolchain", false, "with --kernel, put compiler and sources in as well, for nodes with other kernels")
	f.BoolVar(&k.Sources, "with-sources", false, "with --kernel, put the sources of the kernel modules in as well, for drivers that build on them (GDS, GDRCopy)")
	f.BoolVar(&k.KMM, "kmm", false, "with --kernel, lay the modules out for Kernel Module Management too: /opt/lib/modules/<kernel>, with the files of depmod")
}

// Brief cuts the help of flags at the colon.
func Brief(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Usage, _, _ = strings.Cut(flag.Usage, ":")
	}
}
