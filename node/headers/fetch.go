package headers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/osrelease"
)

// Options says which headers to fetch and where to write them.
type Options struct {
	Root string // the image's root, whose configuration is read; "": "/"
	// folder that gets the headers, as a root of its own for kmod/kbuild/buildtree; it is replaced
	Into    string
	Release string              // release of the kernel, as printed by uname -r
	Arch    string              // of Go: "amd64"; "": that of this program
	Store   string              // folder that keeps downloads
	Getenv  func(string) string // for proxies and DNF_RELEASEVER; nil: os.Getenv
	Log     *slog.Logger        // progress and warnings; may be nil

	backoff time.Duration // before a second attempt; 0: that of the client. For tests
}

// Fetch unpacks the header packages of a kernel into a folder and returns them as "name version",
// the kernel's own last. The folder appears whole or not at all. Whether the packages have what the
// release needs, buildtree.Find says.
//
// Errors are *UnavailableError, ErrPackage, errors of the disk, and the error of the context.
func Fetch(ctx context.Context, o Options) (installed []string, err error) {
	o = o.withDefaults()
	f := &fetcher{Options: o, files: os.DirFS("/")} // which follows absolute links, too
	if !f.own() {
		root, err := os.OpenRoot(o.Root)
		if err != nil {
			return nil, fmt.Errorf("fetch kernel headers: %w", err)
		}
		defer root.Close() //nolint:errcheck // opened for reading folders
		f.files = root.FS()
	}
	installed, err = f.run(ctx)
	return installed, o.explain(ctx, err)
}

// explain says what failed and, when the disk did, what to do.
func (o Options) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, new(*UnavailableError)):
		return err
	case local(err):
		err = fmt.Errorf(
			"%w: free some space on the disk that holds %s, or the one that holds %s",
			err,
			o.Store,
			o.Into,
		)
	}
	return fmt.Errorf("fetch headers of kernel %s: %w", o.Release, err)
}

func (o Options) withDefaults() Options {
	o.Root = cmp.Or(o.Root, "/")
	o.Arch = cmp.Or(o.Arch, runtime.GOARCH)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	return o
}

// fetcher is one call of Fetch.
type fetcher struct {
	Options
	files  fs.FS // of Root
	distro distros.Distro
	arch   distros.Arch
	store  *fetch.Store
}

func (f *fetcher) run(ctx context.Context) (installed []string, err error) {
	f.distro, err = osrelease.System(f.files)
	if err != nil {
		return nil, err
	}
	f.arch, _ = distros.LookupArch(f.Arch) // this program runs on no other
	e := &UnavailableError{Release: f.Release}
	wants := f.distro.Headers(f.Release)
	if len(wants) == 0 {
		e.Err = f.nothing()
		return nil, e
	}
	e.Package = wants[0]
	f.store, err = fetch.OpenStore(f.Store)
	if err != nil {
		return nil, fmt.Errorf(
			"open the folder for kernel headers: %w; --state-dir (DRIVER_STATE_DIR) is the folder above it",
			err,
		)
	}
	manager, err := f.manager(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := manager.find(ctx, wants, e)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	if plan == nil {
		return nil, e
	}
	files, err := f.download(ctx, manager, plan, e)
	if err != nil {
		return nil, err
	}
	installed, err = f.unpack(ctx, manager, plan, files)
	return installed, f.heal(err)
}

// heal removes from the store what the disk has damaged, so that the next start downloads it again.
func (f *fetcher) heal(err error) error {
	wrong, ok := errors.AsType[*fetch.MismatchError](err)
	if !ok {
		return err
	}
	damaged, failed := f.store.RemoveDamaged(wrong.Want)
	if damaged > 0 {
		f.Log.Warn("downloads were damaged on the disk and are removed: look after the disk",
			"path", f.Store, "files", damaged)
	}
	return errors.Join(err, failed)
}

// nothing says why a system has no header package for the kernel.
func (f *fetcher) nothing() error {
	if f.distro.PackageManager() == "" {
		return fmt.Errorf(
			"%s has no packages of headers; the host itself has them, in /lib/modules/%s/build",
			f.distro.ID(),
			f.Release,
		)
	}
	return fmt.Errorf("%q cannot be the name of a kernel of %s", f.Release, f.distro.ID())
}

// own says whether the root is that of this process.
func (f *fetcher) own() bool { return path.Clean(f.Root) == "/" }

// download fetches the packages into the store and returns their paths.
func (f *fetcher) download(ctx context.Context, from manager, p plan, e *UnavailableError) (files []string, err error) {
	for _, pkg := range p {
		begin := time.Now()
		client, err := from.client(pkg.URL)
		if err != nil {
			return nil, e.because(ctx, fmt.Errorf("package %s: %w", label(pkg), err))
		}
		file, cached, err := client.Get(ctx, pinned(pkg), nil)
		if err != nil {
			return nil, e.because(ctx, fmt.Errorf("package %s: %w", label(pkg), err))
		}
		f.Log.Info(
			"package fetched",
			"package", label(pkg),
			"bytes", pkg.Size,
			"cached", cached,
			"duration", time.Since(begin).Round(10*time.Millisecond),
		)
		files = append(files, file)
	}
	return files, nil
}

// pinned is the file of a package as its repository lists it.
func pinned(p distros.Package) fetch.File {
	return fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size, Listed: true}
}

func label(p distros.Package) string { return p.Name + " " + p.Version }
