// Package flags is the flags that several commands of driver-build have: which targets are meant,
// where their content comes from, where images go, what compiles and who signs. Each group is a
// struct of values, which AddTo declares. Values are checked before anything is read or written.
package flags

import (
	"cmp"
	"errors"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Request is the flags of a command that plans images. A command declares the groups that it has;
// the others stay empty.
type Request struct {
	Targets     Targets
	Sources     Sources
	Kernels     Kernels
	Programs    Programs
	Repository  Repository
	Profile     Profile
	Lock        Lock
	Compression string
}

// Batch is what the flags ask for, without targets. The defaults are those of the matrix.
func (r *Request) Batch(a *session.App, defaults matrix.Defaults) (*batch.Batch, error) {
	sources := batch.Sources(r.Sources)
	plan, err := sources.Options(
		cmp.Or(r.Profile.Name, defaults.Profile),
		r.Compression,
		a.Getenv("SOURCE_DATE_EPOCH"),
	)
	b := &batch.Batch{
		Selection:  r.Targets.Selection,
		Plan:       plan,
		Kernels:    batch.Kernels(r.Kernels),
		Repository: a.Repository(r.Repository.Name, defaults),
		Given: batch.Given{
			MatrixFile:   r.Targets.Matrix.File,
			LockFile:     r.Lock.File,
			Profile:      r.Profile.Name,
			AllowMissing: r.Programs.AllowMissing,
			CAFile:       a.CAFile,
			Insecure:     a.Insecure,
			Mirrors:      a.RegistryMirrors,
		},
	}
	return b, errors.Join(
		session.Usage(b.Kernels.Check()),
		batch.CheckRepository(b.Repository),
		err,
	)
}

// Sources are the flags that replace what the matrix says of base, packages and driver.
type Sources batch.Sources

// AddTo declares --base and --mirror.
func (s *Sources) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&s.Base,
		"base",
		"",
		"base `IMAGE` instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or "+
			"docker-archive:FILE",
	)
	f.StringVar(
		&s.Mirror,
		"mirror",
		"",
		"package mirror instead of the addresses in the base's configuration: `URL` or PREFIX=URL",
	)
	session.Images(f, "base")
	session.Check(f, batch.CheckMirror, "mirror")
}

// AddSourceTo declares --source.
func (s *Sources) AddSourceTo(f *pflag.FlagSet) {
	f.StringVar(
		&s.Source,
		"source",
		"",
		"`URL` or FILE of the driver's archive; the row's checksum still applies",
	)
}

// Kernels are the flags of modules that are compiled ahead of time.
type Kernels batch.Kernels

// AddTo declares the flags.
func (k *Kernels) AddTo(f *pflag.FlagSet) {
	f.StringSliceVar(
		&k.Specs,
		"kernel",
		nil,
		"compile the modules for a kernel ahead of time: its `RELEASE` (uname -r), latest, latest:N or "+
			"all (repeatable)",
	)
	k.AddFromTo(f)
	f.StringSliceVar(
		&k.Flavours,
		"kernel-flavour",
		nil,
		"kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)",
	)
	f.StringSliceVar(
		&k.Modules,
		"modules",
		nil,
		"with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the "+
			"sources offer)",
	)
	f.BoolVar(
		&k.Together,
		"one-image",
		false,
		"with --kernel, one image <driver>-<os> for all kernels instead of one "+
			"<driver>-<kernel>-<os> each",
	)
	f.BoolVar(
		&k.Toolchain,
		"with-toolchain",
		false,
		"with --kernel, put compiler and sources in as well, for nodes with other kernels",
	)
	f.BoolVar(
		&k.Thin,
		"no-toolchain",
		false,
		"without --kernel, leave out compiler and sources, for nodes that get modules from an image "+
			"beside or from their system",
	)
	f.BoolVar(
		&k.Sources,
		"with-sources",
		false,
		"with --kernel, put the sources of the kernel modules in as well, for drivers that build on "+
			"them (GDS, GDRCopy)",
	)
	f.BoolVar(
		&k.KMM,
		"kmm",
		false,
		"with --kernel, lay the modules out for Kernel Module Management too: "+
			"/opt/lib/modules/<kernel>, with the files of depmod",
	)
	session.Hide(f, "modules", "kmm", "no-toolchain", "with-sources", "kernel-flavour")
}

// AddFromTo declares --kernel-from.
func (k *Kernels) AddFromTo(f *pflag.FlagSet) {
	f.StringArrayVar(
		&k.From,
		"kernel-from",
		nil,
		"`IMAGE` with headers and compiler to compile in instead of packages: REF, oci:DIR[:TAG], "+
			"oci-archive:FILE or docker-archive:FILE (repeatable)",
	)
	session.Images(f, "kernel-from")
}

// Repository is where images are pushed to or looked for.
type Repository struct{ Name string }

// AddTo declares --repository. use is what it is for: "push to".
func (r *Repository) AddTo(f *pflag.FlagSet, use string) {
	f.StringVar(
		&r.Name,
		"repository",
		"",
		"`REGISTRY/PATH` to "+use+" (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)",
	)
}

// Profile is how much of the driver goes into an image.
type Profile struct{ Name string }

// AddTo declares --profile.
func (p *Profile) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&p.Name,
		"profile",
		"",
		"`NAME`: full has all user-mode libraries but X's; compute what CUDA, NVML, OpenCL and video "+
			"need; cuda what CUDA and NVML need; cuda-tu10x, cuda-ga10x one firmware; modules nothing: "+
			"only those of --kernel (default: the matrix's)",
	)
}

// Lock is the file of the lock.
type Lock struct{ File string }

// AddTo declares --lock of a command that reads it.
func (l *Lock) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&l.File,
		"lock",
		"",
		"lock to go by: `FILE` or none (default: matrix.lock beside matrix.yaml, where it is there)",
	)
}
