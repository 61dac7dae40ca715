// Package flags is the flags that several commands of driver-build have: which targets are meant,
// where their content comes from, where images go, what compiles and who signs. All values are
// checked before anything is read or written.
package flags

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/releases"
)

// Common are the flags of which each command has some: see AddTo. Flags that a command does not
// have are empty.
type Common struct {
	batch.Batch
	Sources              batch.Sources
	Compression          string
	Entrypoint, Releases string    // FILE, or URL
	At                   string    // a day
	Day                  time.Time // of --at or today, on which ends of life are judged; after Load
	CUDA                 *releases.CUDA
	deny                 []string // kinds of warnings
	cuda                 string
	mirrors              map[string][]string // of registries, in the matrix
}

// The names of flags that belong together, for AddTo.
const (
	Targets  = "os driver arch flavour all allow-incompatible no-fabric no-patches companions matrix"
	Kernels  = "kernel kernel-from kernel-flavour modules one-image with-toolchain no-toolchain with-sources kmm"
	Programs = "entrypoint allow-missing-programs"
	Sources  = "base mirror"
	Judged   = "deny at"
)

// AddTo declares those of the flags that names has, separated by spaces.
func (c *Common) AddTo(f *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.declare(all)
	for name := range strings.FieldsSeq(strings.Join(names, " ")) {
		f.AddFlag(all.Lookup(name))
	}
}

// declare declares all of the flags.
func (c *Common) declare(f *pflag.FlagSet) {
	s := &c.Selection
	k := &c.Kernels
	f.StringSliceVar(&s.Systems, "os", nil, "operating `SYSTEM`, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(&s.Drivers, "driver", nil, "driver `VERSION`, such as 580.178.04, or a branch, such as 580: its newest in the matrix (repeatable)")
	f.StringSliceVar(&s.Archs, "arch", nil, "`ARCH`: amd64 or arm64 (repeatable; default amd64)")
	f.StringSliceVar(&s.Flavours, "flavour", nil, "`FLAVOUR` of the kernel modules: proprietary or open (repeatable; default all of the driver)")
	f.BoolVar(&s.All, "all", false, "every pair of the matrix that works")
	f.BoolVar(&s.AllowIncompatible, "allow-incompatible", false, "build against a compatibility rule, with a warning and a label")
	f.BoolVar(&s.NoFabric, "no-fabric", false, "leave out the driver's components for NVSwitch and NVLink (fabric manager, NVLSM, IMEX, NSCQ, NVSDM)")
	f.BoolVar(&s.NoPatches, "no-patches", false, "leave the sources of the kernel modules as they are: without the matrix's patches, and without the kernels that only they allow")
	f.StringSliceVar(&s.Companions, "companions", nil, "`NAME` of kernel modules that are compiled with the driver's: nvidia-fs, gdrdrv, or all that fit (repeatable; default none)")
	f.StringVar(&c.Given.MatrixFile, "matrix", "", "`FILE` with the version matrix (default ./matrix.yaml, else the one in this program)")
	f.StringVar(&c.Given.LockFile, "lock", "", "lock to go by: `FILE` or none (default: matrix.lock beside matrix.yaml, where it is there)")
	f.StringVar(&c.Repository, "repository", "", "`REGISTRY/PATH` to look for images in (default: $DRIVER_BUILD_REPOSITORY, else the matrix's)")
	f.StringVar(&c.Sources.Base, "base", "", "base `IMAGE` instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE")
	f.StringVar(&c.Sources.Mirror, "mirror", "", "package mirror instead of the addresses in the base's configuration: `URL` or PREFIX=URL")
	f.StringVar(&c.Sources.Source, "source", "", "`URL` or FILE of the driver's archive; the row's checksum still applies")
	f.StringVar(&c.Given.Profile, "profile", "", "`NAME`: full, compute, cuda, cuda-tu10x, cuda-ga10x or modules (default: the matrix's)")
	f.StringVar(&c.Entrypoint, "entrypoint", "", "FILE: driver-entrypoint of the images (default: the one of this version)")
	f.BoolVar(&c.Given.AllowMissing, "allow-missing-programs", false,
		"leave out driver-probe, with a warning, where it is neither here nor can be made")
	f.StringSliceVar(&k.Specs, "kernel", nil, "compile the modules for a kernel ahead of time: its `RELEASE` (uname -r), latest, latest:N or all (repeatable)")
	f.StringArrayVar(&k.From, "kernel-from", nil, "`IMAGE` with headers and compiler to compile in instead of packages: REF, oci:DIR[:TAG], oci-archive:FILE or docker-archive:FILE (repeatable)")
	f.StringSliceVar(&k.Flavours, "kernel-flavour", nil, "kernels that latest and all mean, such as cloud-amd64 or aws (repeatable)")
	f.StringSliceVar(&k.Modules, "modules", nil, "with --kernel, the modules to compile, such as nvidia,nvidia-uvm (default: all that the sources offer)")
	f.BoolVar(&k.Together, "one-image", false, "with --kernel, one image <driver>-<os> for all kernels instead of one <driver>-<kernel>-<os> each")
	f.BoolVar(&k.Toolchain, "with-toolchain", false, "with --kernel, put compiler and sources in as well, for nodes with other kernels")
	f.BoolVar(&k.Thin, "no-toolchain", false, "without --kernel, leave out compiler and sources, for nodes that get modules from an image beside or from their system")
	f.BoolVar(&k.Sources, "with-sources", false, "with --kernel, put the sources of the kernel modules in as well, for drivers that build on them (GDS, GDRCopy)")
	f.BoolVar(&k.KMM, "kmm", false, "with --kernel, lay the modules out for Kernel Module Management too: /opt/lib/modules/<kernel>, with the files of depmod")
	f.StringSliceVar(&c.deny, "deny", nil, "`KIND` of warning that makes the command fail with exit code 3: end-of-life, known-bad, kernel-broken or all (repeatable)")
	f.StringVar(&c.At, "at", "", "YYYY-MM-DD: judge ends of life on that day (default today)")
	f.StringVar(&c.cuda, "cuda", "", "`MAJOR.MINOR` of CUDA: say how each driver runs it; plan and fleet leave out drivers that do not")
	f.StringVar(&c.Releases, "releases", "", "`FILE` or URL of a releases.json as NVIDIA publishes it, or none: the built-in table alone (default NVIDIA's own, where it can be reached)")
	session.Images(f, "base", "kernel-from")
	session.Check(f, batch.CheckMirror, "mirror")
	session.Check(f, releases.CheckWarningKind, "deny")
	session.Hide(f, "modules", "kmm", "at", "allow-missing-programs", "entrypoint", "no-patches", "no-toolchain", "with-sources", "kernel-flavour")
}

// Load reads the matrix, the file given, the one in the current folder, or the embedded one, and
// checks the flags. For a branch that --driver names it chooses the version, and says which.
func (c *Common) Load(a *session.App) (*matrix.Matrix, error) {
	m, err := batch.ReadMatrix(c.Given.MatrixFile, drivercontainer.Matrix, drivercontainer.Patches)
	if err != nil {
		return nil, err
	}
	a.Notes(releases.Resolve(m, c.Selection.Drivers)...)
	for _, driver := range c.Selection.Drivers {
		a.Notes(given(releases.Absent(m, driver))...)
	}
	if c.cuda != "" {
		r, err := releases.RequireCUDA(m, c.cuda)
		if err != nil {
			return nil, session.Usagef("--cuda: %w", err)
		}
		c.CUDA = &r
		a.Notes(given(r.Lacking(m))...)
	}
	c.mirrors = m.Defaults.Mirrors
	return m, c.check(a, m.Defaults)
}

// given is a list of a text, empty without one.
func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func (c *Common) check(a *session.App, d matrix.Defaults) (err error) {
	if slices.Contains(c.deny, "all") {
		c.deny = releases.WarningKinds()
	}
	c.Day = time.Now()
	if c.At != "" {
		c.Day, err = time.Parse(time.DateOnly, c.At)
		if err != nil {
			return session.Usagef("--at %q is no day, such as 2026-06-30", c.At)
		}
	}
	a.Complete(&c.Batch, d)
	c.Plan, err = c.Sources.Options(
		cmp.Or(c.Given.Profile, d.Profile),
		c.Compression,
		a.Getenv("SOURCE_DATE_EPOCH"),
	)
	return errors.Join(session.Usage(c.Kernels.Check()), batch.CheckRepository(c.Repository), err)
}

// Whole makes a selection without systems or without drivers mean every pair that is left.
func (c *Common) Whole() {
	c.Selection.All = c.Selection.All || len(c.Selection.Systems) == 0 ||
		len(c.Selection.Drivers) == 0
}

// Choose is Load, and chooses the targets of the batch, and the options of their images. Without
// --arch they are for the architectures of the kernels, else see [matrix.Selection.ArchsOf]: one
// rule for every command.
func (c *Common) Choose(a *session.App) (*matrix.Matrix, error) {
	m, err := c.Load(a)
	if err != nil {
		return nil, err
	}
	s := &c.Selection
	if len(s.Archs) == 0 {
		s.Archs = ofKernels(c.Kernels.Specs)
	}
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return nil, session.Usagef(
			"nothing to build: give --os and --driver, or --all; driver-build list shows what there is",
		)
	}
	c.Targets, err = m.Select(*s)
	if err != nil {
		return nil, session.Usage(err)
	}
	if len(c.Targets) == 0 {
		return nil, session.Usagef("no pair of the matrix is left: driver-build list says why")
	}
	if c.Sources.Source != "" && len(c.Targets) > 1 {
		return nil, session.Usagef(
			"--source is one archive: it needs one driver and one architecture",
		)
	}
	return m, c.CheckProfile()
}

// Take is Choose of targets that are known without a matrix.
func (c *Common) Take(a *session.App, targets []matrix.Target, profile string) error {
	c.Targets = targets
	return c.check(a, matrix.Defaults{Profile: profile})
}

// NamedGroups opens the lock and returns the images that the flags name. It returns none where only
// the repositories know which kernels are meant.
func (c *Common) NamedGroups() ([]batch.Group, error) {
	if err := c.OpenLock(); err != nil || c.NeedsIndex() {
		return nil, err
	}
	return c.Groups(nil)
}

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

// With is With of the App, with the mirrors of the matrix and the programs for the images of the
// targets. It prints a warning for each program that the images will lack. If they are not needed,
// only that of --entrypoint has to be there.
func (c *Common) With(
	ctx context.Context,
	a *session.App,
	needed bool,
	f func(context.Context, *session.Session) error,
) error {
	find := a.Programs(
		ctx,
		&programs.Finder{Entrypoint: c.Entrypoint, Partial: c.Given.AllowMissing},
	)
	if needed || c.Entrypoint != "" {
		lacks, err := batch.CheckPrograms(find, c.Targets)
		a.Warnings(lacks...)
		if err != nil {
			return err
		}
	}
	return a.With(ctx, c.mirrors, find, f)
}

// Report prints what is known of the drivers of targets on stderr, with --progress quiet only where
// --deny denies it, which is the error. kernels says that those that break a driver count too.
func (c *Common) Report(a *session.App, targets []matrix.Target, kernels bool) error {
	j := batch.Judge(targets, c.Day)
	denied := j.Deny(c.deny)
	if a.Quiet() && denied == nil {
		return nil
	}
	warnings := j.Texts()
	if !kernels {
		warnings = j.Texts(driverinfo.KernelBroken)
	}
	a.Warnings(warnings...)
	a.Notes(j.Notices...)
	return denied
}

// WarnOfFabric prints a warning for each driver that --driver names and that has no fabric manager.
func (c *Common) WarnOfFabric(a *session.App) {
	if !a.Quiet() {
		a.Warnings(batch.WithoutFabric(c.Targets, c.Selection)...)
	}
}

// Denies says whether --deny is given.
func (c *Common) Denies() bool { return len(c.deny) > 0 }

// LimitToCUDA removes the targets whose drivers do not run the release of --cuda.
func (c *Common) LimitToCUDA() error {
	r := c.CUDA
	if r == nil {
		return nil
	}
	c.Targets = slices.DeleteFunc(
		c.Targets,
		func(t matrix.Target) bool { return batch.RunsCUDA(t.Driver, *r).Support == releases.CUDANone },
	)
	if len(c.Targets) == 0 {
		return session.Usagef(
			"--cuda %s: no driver of the selection runs it: it needs %s or newer; driver-build list --cuda %s shows all",
			r.Version,
			r.Floor,
			r.Version,
		)
	}
	return nil
}
