package headers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Options says whose headers to bring where.
type Options struct {
	Root    string                           // the image's root: its configuration is read and its tree is written; "": "/"
	Release string                           // the kernel's, as uname -r says it
	Distro  distros.Distro                   // nil: what os-release of Root says
	Arch    string                           // of Go: "amd64"; "": this program's
	Store   string                           // folder for what is downloaded, kept; "": a temporary one
	Getenv  func(string) string              // nil: os.Getenv; for proxies
	Say     func(format string, args ...any) // progress and warnings, a line each; nil: nobody listens
}

// Fetch brings the header packages of a kernel into the root and returns them as "name version", the kernel's own last.
// Files that are there and the same are kept, so it may be called again. When it fails, no tree is left that says to be
// complete: include/config/kernel.release and include/generated/utsrelease.h are written last of all, and folders that
// this call made are removed again.
//
// Errors: *UnavailableError, *SpaceError, ErrConflict, ErrPackage, those of the disk, and the context's as it is.
func Fetch(ctx context.Context, o Options) (installed []string, err error) {
	o = o.withDefaults()
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return nil, fmt.Errorf("fetch kernel headers: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading folders
	f := fetcher{Options: o, root: root, files: root.FS()}
	if path.Clean(o.Root) == "/" {
		f.files = os.DirFS("/") // follows absolute links too, which os.Root never does
	}
	installed, err = f.run(ctx)
	var unavailable *UnavailableError
	switch {
	case err == nil:
		return installed, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("fetch headers of kernel %s: %w", o.Release, context.Cause(ctx))
	case errors.As(err, &unavailable):
		return nil, err
	}
	return nil, fmt.Errorf("fetch headers of kernel %s: %w", o.Release, err)
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

// fetcher is one call of Fetch.
type fetcher struct {
	Options
	root   *os.Root
	files  fs.FS // of the root
	conf   conf
	client *fetch.Client
}

func (f *fetcher) run(ctx context.Context) ([]string, error) {
	if f.Distro == nil {
		d, err := distros.FromOSRelease(f.files)
		if err != nil {
			return nil, err
		}
		f.Distro = d
	}
	arch, ok := distros.LookupArch(f.Arch)
	if !ok {
		return nil, &UnavailableError{Release: f.Release, Err: fmt.Errorf("there are no drivers for architecture %q", f.Arch)}
	}
	wants := f.Distro.Headers(f.Release)
	if len(wants) == 0 {
		return nil, &UnavailableError{Release: f.Release, Err: fmt.Errorf("%q cannot be part of a package's name in %s", f.Release, f.Distro.ID())}
	}
	closed, err := f.connect()
	if err != nil {
		return nil, err
	}
	defer closed()
	plan, err := f.plan(ctx, wants, arch.Debian)
	if err != nil {
		return nil, err
	}
	// The indexes are tens of megabytes; what unpacks the packages wants some too, and the node its memory back.
	debug.FreeOSMemory()
	if err := f.room(plan); err != nil {
		return nil, err
	}
	debs, err := f.download(ctx, plan)
	if err != nil {
		return nil, err
	}
	return f.unpack(ctx, plan, debs)
}

// connect makes the client. closed gives back what it holds.
func (f *fetcher) connect() (closed func(), err error) {
	f.conf = readConf(f.files, f.Say)
	transport, err := newTransport(f.files, path.Clean(f.Root) == "/", f.conf, f.Getenv, f.Say)
	if err != nil {
		return nil, err
	}
	dir, temporary := f.Store, ""
	if dir == "" {
		if temporary, err = os.MkdirTemp("", "kernel-headers-"); err != nil {
			return nil, err
		}
		dir = temporary
	}
	closed = func() {
		transport.CloseIdleConnections()
		if temporary != "" {
			_ = os.RemoveAll(temporary) // in the container's temporary folder: it goes with the container
		}
	}
	store, err := fetch.OpenStore(dir)
	if err != nil {
		closed()
		return nil, err
	}
	f.client = &fetch.Client{Store: store, HTTP: transport.client(), Attempts: attempts, UserAgent: "driver-entrypoint"}
	return closed, nil
}

// attempts of each request, half a second and a second apart: a repository that is not there shall not hold the node up,
// and the container is started again anyway.
const attempts = 3

// plan finds out which packages to bring.
func (f *fetcher) plan(ctx context.Context, wants []string, arch string) (*plan, error) {
	e := &UnavailableError{Release: f.Release, Package: wants[0]}
	releases, err := f.open(ctx, arch, e)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	index, err := releases.Load(ctx)
	if err != nil {
		if local(err) || ctx.Err() != nil {
			return nil, err
		}
		e.Err = err
		return nil, e
	}
	f.Say("package repositories read: %d packages in %s", index.Len(), time.Since(begin).Round(time.Millisecond))
	status, err := f.status()
	if err != nil {
		return nil, err
	}
	return f.closure(index, status, wants, arch, e)
}

// status reads what is installed in the image; nil where it does not say.
func (f *fetcher) status() (*dpkg.Status, error) {
	file, err := f.files.Open("var/lib/dpkg/status")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is installed in the image: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading
	return dpkg.ReadStatus(file)
}

// download brings the packages into the store and returns their paths.
func (f *fetcher) download(ctx context.Context, p *plan) ([]string, error) {
	var out []string
	for _, pkg := range p.packages {
		begin := time.Now()
		file, cached, err := f.client.Get(ctx, fetch.File{URL: pkg.URL, SHA256: pkg.SHA256, Size: pkg.Size}, nil)
		if err != nil {
			if local(err) || ctx.Err() != nil {
				return nil, err
			}
			return nil, &UnavailableError{Release: f.Release, Package: pkg.Name, Err: fmt.Errorf("package %s %s: %w", pkg.Name, pkg.Version, err)}
		}
		how := "downloaded in " + time.Since(begin).Round(10*time.Millisecond).String()
		if cached {
			how = "is in the cache"
		}
		f.Say("%s %s (%.1f MB) %s", pkg.Name, pkg.Version, float64(pkg.Size)/1e6, how)
		out = append(out, file)
	}
	return out, nil
}

func label(p apt.Package) string { return p.Name + " " + p.Version }

// at is a path in the root, for messages and for system calls that os.Root has not.
func (f *fetcher) at(name string) string { return filepath.Join(f.Root, filepath.FromSlash(name)) }
