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
	"github.com/driver-container/driver-container/distros/fetch"
)

// Options says whose headers to bring where.
type Options struct {
	Root    string                           // the image's root: its configuration is read and its tree is written; "": "/"
	Release string                           // the kernel's, as uname -r says it
	Distro  distros.Distro                   // nil: what os-release of Root says
	Arch    string                           // of Go: "amd64"; "": this program's
	Store   string                           // folder for what is downloaded, kept; "": a temporary one
	Getenv  func(string) string              // nil: os.Getenv; for proxies, and DNF_RELEASEVER
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
	f := &fetcher{Options: o, root: root, files: root.FS()}
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
	root  *os.Root
	files fs.FS // of the root
	store *fetch.Store
}

func (f *fetcher) run(ctx context.Context) ([]string, error) {
	if f.Distro == nil {
		d, err := distros.FromOSRelease(f.files)
		if err != nil {
			return nil, err
		}
		f.Distro = d
	}
	if _, ok := distros.LookupArch(f.Arch); !ok {
		return nil, &UnavailableError{Release: f.Release, Err: fmt.Errorf("there are no drivers for architecture %q", f.Arch)}
	}
	wants := f.Distro.Headers(f.Release)
	if len(wants) == 0 {
		return nil, &UnavailableError{Release: f.Release, Err: f.nothing()}
	}
	closed, err := f.openStore()
	if err != nil {
		return nil, err
	}
	defer closed()
	family, done, err := f.family()
	if err != nil {
		return nil, err
	}
	defer done()
	plan, err := family.find(ctx, wants)
	if err != nil {
		return nil, err
	}
	// The indexes are tens of megabytes; what unpacks the packages wants some too, and the node its memory back.
	debug.FreeOSMemory()
	if err := f.room(plan); err != nil {
		return nil, err
	}
	files, err := f.download(ctx, family, plan)
	if err != nil {
		return nil, err
	}
	return f.unpack(ctx, family, plan, files)
}

// nothing says why a system has no package for the kernel.
func (f *fetcher) nothing() error {
	if f.Distro.PackageManager() == "" {
		return fmt.Errorf("%s has no packages of headers; the host itself has them, in /lib/modules/%s/build", f.Distro.ID(), f.Release)
	}
	return fmt.Errorf("%q cannot be the name of a kernel of %s", f.Release, f.Distro.ID())
}

// openStore finds a place for downloads. closed gives it back if it was made for this call.
func (f *fetcher) openStore() (closed func(), err error) {
	dir, closed := f.Store, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "kernel-headers-"); err != nil {
			return nil, err
		}
		closed = func() { _ = os.RemoveAll(dir) } // in the container's temporary folder: it goes with the container
	}
	if f.store, err = fetch.OpenStore(dir); err != nil {
		closed()
		return nil, err
	}
	return closed, nil
}

// attempts of each request, half a second and a second apart: a repository that is not there shall not hold the node up,
// and the container is started again anyway.
const attempts = 3

// own says whether the root is this process's.
func (f *fetcher) own() bool { return path.Clean(f.Root) == "/" }

// download brings the packages into the store and returns their paths.
func (f *fetcher) download(ctx context.Context, from family, p *plan) ([]string, error) {
	var out []string
	for _, pkg := range p.packages {
		begin := time.Now()
		client, err := from.client(pkg.URL)
		var file string
		var cached bool
		if err == nil {
			file, cached, err = client.Get(ctx, fetch.File{URL: pkg.URL, SHA256: pkg.SHA256, SHA512: pkg.SHA512, Size: pkg.Size}, nil)
		}
		if err != nil {
			if local(err) || ctx.Err() != nil {
				return nil, err
			}
			return nil, &UnavailableError{
				Release: f.Release, Package: pkg.Name, Folder: p.folder, Err: fmt.Errorf("package %s: %w", label(pkg.Package), err),
			}
		}
		how := "downloaded in " + time.Since(begin).Round(10*time.Millisecond).String()
		if cached {
			how = "is in the cache"
		}
		f.Say("%s (%.1f MB) %s", label(pkg.Package), float64(pkg.Size)/1e6, how)
		out = append(out, file)
	}
	return out, nil
}

func label(p distros.Package) string { return p.Name + " " + p.Version }

// at is a path in the root, for messages and for system calls that os.Root has not.
func (f *fetcher) at(name string) string { return filepath.Join(f.Root, filepath.FromSlash(name)) }
