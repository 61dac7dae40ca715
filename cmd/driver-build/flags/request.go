// Package flags is the flags that several commands of driver-build have: which targets are meant,
// where their content comes from, where images go, what compiles and who signs. Each group is a
// struct of values, which AddTo declares. Values are checked before anything is read or written.
package flags

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Request is the flags of a command that plans images. A command declares the groups that it has;
// the others stay empty.
type Request struct {
	Targets     Targets
	Sources     Sources
	Kernels     Kernels
	Repository  Repository
	Profile     Profile
	Lock        Lock
	Compression string
}

// Images is what the flags ask for: targets of a matrix, and what their images get. The lock is not
// read yet: see [Request.OpenLock].
func (r *Request) Images(a *session.App, m *matrix.Matrix) (images.Request, error) {
	q, err := r.WithoutTargets(a, m.Defaults)
	if err != nil {
		return q, err
	}
	s := &r.Targets.Selection
	if len(s.Archs) == 0 { // else see [matrix.Selection.ArchsOf]
		s.Archs = archsOfKernels(r.Kernels.Specs)
	}
	if !s.All && (len(s.Systems) == 0 || len(s.Drivers) == 0) {
		return q, session.Usagef(
			"nothing to build: give --os and --driver, or --all; driver-build list shows what there is",
		)
	}
	q.Targets, err = m.Select(*s)
	if err != nil {
		return q, session.Usage(err)
	}
	if len(q.Targets) == 0 {
		return q, session.Usagef("no pair of the matrix is left: driver-build list says why")
	}
	if r.Sources.Source != "" && len(q.Targets) > 1 {
		return q, session.Usagef(
			"--source is one archive: it needs one driver and one architecture",
		)
	}
	return q, r.Kernels.checkProfile(q.Options.Profile)
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

// WithoutTargets is what the flags say of every image. The defaults are those of the matrix.
func (r *Request) WithoutTargets(
	a *session.App,
	defaults matrix.Defaults,
) (q images.Request, err error) {
	q.Kernels = r.Kernels.Specs
	q.KernelFlavours = r.Kernels.Flavours
	q.AllowIncompatible = r.Targets.Selection.AllowIncompatible
	q.LockCommand = r.Lock.updateCommand
	o := &q.Options
	o.Flavours = r.Targets.Selection.Flavours
	o.Base = r.Sources.Base
	o.Mirror = r.Sources.Mirror
	r.Kernels.set(o)
	err = r.Kernels.Check()
	if err != nil {
		return q, session.Usage(err)
	}
	o.Profile, err = recipe.ParseProfile(cmp.Or(r.Profile.Name, defaults.Profile))
	if err != nil {
		return q, session.Usage(err)
	}
	if r.Compression != "" && r.Compression != "auto" {
		o.Compression, err = recipe.ParseCompression(r.Compression)
		if err != nil {
			return q, session.Usage(err)
		}
	}
	o.Epoch, err = a.Epoch()
	if err != nil {
		return q, err
	}
	if r.Sources.Source != "" {
		o.Source, err = fetch.Address("--source", r.Sources.Source)
	}
	return q, session.Usage(err)
}

// OpenLock reads what the lock has of the targets of a request, or everything if it has no targets.
// Without a lock, and with "none" as its file, the request goes by no lock.
func (r *Request) OpenLock(q *images.Request) error {
	if r.Lock.File == "none" {
		return nil
	}
	path := lockfile.Path(r.Lock.File, r.Targets.Matrix.File)
	lock, err := lockfile.Read(path, func(name string) bool {
		return len(q.Targets) == 0 || slices.ContainsFunc(q.Targets, func(t matrix.Target) bool {
			return strings.HasPrefix(name, t.Driver.Version+"-") &&
				strings.HasSuffix(name, "-"+t.System.ID+"/"+t.Arch)
		})
	})
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && r.Lock.File == "":
		return nil
	case missing:
		return session.Usagef("--lock: %w; driver-build lock --lock %s writes it", err, path)
	case err != nil:
		return session.Usage(err)
	}
	q.Lock = lock
	return nil
}

// Sources are the flags that replace what the matrix says of base, packages and driver.
type Sources struct {
	Base   string // as registry.Client.Open takes it
	Mirror string // of packages: words as distros.ParseMirror takes them
	Source string // of the driver's archive: URL or file
}

// AddTo declares --base and --mirror.
func (s *Sources) AddTo(f *pflag.FlagSet) {
	f.Var(
		session.String(&s.Base, session.Image),
		"base",
		"base `IMAGE` instead of the row's: REF, oci:DIR[:TAG], oci-archive:FILE or "+
			"docker-archive:FILE",
	)
	f.Var(
		session.String(&s.Mirror, session.Valid(checkMirror)),
		"mirror",
		"package mirror instead of the addresses in the base's configuration: `URL` or PREFIX=URL",
	)
}

// checkMirror finds mistakes in a mirror of packages.
func checkMirror(text string) error {
	mirror, err := distros.ParseMirror(text)
	for _, address := range mirror.URLs() {
		err = errors.Join(err, fetch.CheckURL(address))
	}
	return err
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

// Find returns the repository: that of the flag, else of the environment, else of the matrix; ""
// is none.
func (r *Repository) Find(a *session.App, defaults matrix.Defaults) (string, error) {
	repository := a.Repository(r.Name, defaults)
	if repository == "" {
		return "", nil
	}
	err := imagename.CheckRepository(repository)
	if err != nil {
		return "", session.Usagef("--repository (DRIVER_BUILD_REPOSITORY) %w", err)
	}
	return repository, nil
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
type Lock struct {
	File string

	flags *pflag.FlagSet // of the command, which a proposed command repeats
}

// AddTo declares --lock of a command that reads it.
func (l *Lock) AddTo(f *pflag.FlagSet) {
	l.flags = f
	f.StringVar(
		&l.File,
		"lock",
		"",
		"lock to go by: `FILE` or none (default: matrix.lock beside matrix.yaml, where it is there)",
	)
}

// updateCommand is the command that locks an entry again, with the flags of this call.
func (l *Lock) updateCommand(entry string) string {
	words := Arguments(l.flags, "matrix", "lock", "arch", "base", "mirror", "flavour", "kernel",
		"kernel-from", "modules-from", "kernel-flavour", "one-image", "with-toolchain", "no-toolchain",
		"with-sources", "kmm", "allow-incompatible", "no-fabric", "no-patches", "companions")
	for i, w := range words {
		words[i] = shellWord(w)
	}
	words = append([]string{"driver-build", "lock"}, words...)
	return strings.Join(append(words, "--update", entry), " ")
}
