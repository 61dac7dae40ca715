package images

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
)

// PlanOptions are the choices that are not in the matrix. The zero value takes everything from the row.
type PlanOptions struct {
	Base        string      // another base: a reference, oci:DIR, oci-archive:FILE or docker-archive:FILE
	Source      string      // where the .run archive is: a URL; its checksum is still the row's
	Mirror      string      // instead of the addresses in the base's apt configuration; see apt.WithMirror
	Profile     Profile     // "": full
	Compression Compression // "": gzip
	Epoch       int64       // SOURCE_DATE_EPOCH

	Kernels   []string          // releases to compile modules for ahead of time
	Together  bool              // all kernels in one image, <driver>-<os>; without it there must be one kernel, and the tag names it
	Toolchain bool              // with Kernels: compiler and sources are in the image all the same, for other kernels
	Sources   bool              // with Kernels: the sources of the modules are in the image
	Flavours  []string          // with Kernels: of those modules; empty: the one that the driver's own installer would take
	Modules   []string          // with Kernels: names of the modules; empty: all that the sources offer
	Signer    *x509.Certificate // with Kernels: of Builder.Signer; nil: unsigned
}

// Plan pins what goes into the image of a target. It reads the base and the signed package indexes and downloads no package
// and no driver.
func (b *Builder) Plan(ctx context.Context, t matrix.Target, o PlanOptions) (*Recipe, error) {
	d, err := distros.Lookup(t.System.ID)
	if err != nil {
		return nil, err
	}
	r := newRecipe(t, d, o)
	r.Builder = b.Info
	step := b.Observe.Begin(r.Target(), "plan")
	return r, step.End(false, b.plan(ctx, r, t, d, o, step))
}

func (b *Builder) plan(ctx context.Context, r *Recipe, t matrix.Target, d distros.Distro, o PlanOptions, step *Step) (err error) {
	if r.Entrypoint, err = b.Binaries(t.Arch); err != nil {
		return err
	}
	ref := t.System.Base
	if o.Base != "" {
		ref = o.Base
	}
	base, err := b.Registry.Base(ctx, ref, t.Arch)
	if registry.IsLocal(ref) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrBase, err)
	}
	if err != nil {
		return fmt.Errorf("base image of %s: %w", r.Target(), err)
	}
	r.Base = Base{Name: base.Name, Digest: base.Digest.String(), Location: ref}
	if registry.IsLocal(ref) {
		r.Base.Name = "" // a path of this machine has no place in an image
	}
	spool, err := rootfs.NewSpool(b.Store.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree, err := b.baseTree(ctx, base.Image, r.Base.Digest, spool, step)
	if err != nil {
		return err
	}
	if err := checkSystem(tree, distros.Userland(d)); err != nil {
		return fmt.Errorf("base %s: %w", ref, err)
	}
	w, err := wants(t, d, o, r)
	if err != nil {
		return err
	}
	r.Source.Runfile = w.runfile
	return b.planPackages(ctx, r, t, o, tree, w, step)
}

// wanted is what a target asks of the package repositories, in apt's notation, or else of NVIDIA.
type wanted struct {
	Image    []string            // what the image has beside the driver
	Compiler []string            // what compiles ahead of time: nothing else, so that it is the same for all images
	Headers  map[string][]string // by kernel
	Driver   []string
	runfile  *fetch.File
}

// wants decides what goes in: a toolchain or only what loading takes, headers for the kernels to compile for, and the driver.
func wants(t matrix.Target, d distros.Distro, o PlanOptions, r *Recipe) (wanted, error) {
	w := wanted{Image: d.Toolchain(t.Arch), Headers: map[string][]string{}}
	if !r.Toolchain {
		w.Image = d.Runtime(t.Arch)
	}
	if len(r.Kernels) > 0 {
		w.Compiler = d.Toolchain(t.Arch)
	}
	for _, k := range r.Kernels {
		if d.PackageManager() == "" {
			return w, fmt.Errorf("%w: --kernel %q: kernel headers of %s come with the host and are in no package, so its modules are compiled on the node: leave --kernel out", ErrKernel, k.Release, d.ID())
		}
		if w.Headers[k.Release] = d.Headers(k.Release); w.Headers[k.Release] == nil {
			return w, fmt.Errorf("%w: --kernel %q: this is no release of a kernel of %s: driver-build kernels --os %s lists them", ErrKernel, k.Release, d.ID(), d.ID())
		}
	}
	return w, w.driver(t, o, r.Flavours)
}

// driver decides where the driver comes from: the archive of the command line, the system's own packages where the row names
// them, and else the row's .run archive.
func (w *wanted) driver(t matrix.Target, o PlanOptions, flavours []string) error {
	archive, ok := t.Driver.Archives[t.Arch]
	if o.Source != "" {
		if !ok {
			return fmt.Errorf("--source %s: the matrix has no checksum of the %s archive of driver %s to check it against: add archives.%s to the driver",
				o.Source, t.Arch, t.Driver.Version, t.Arch)
		}
		w.runfile = &fetch.File{URL: o.Source, SHA256: archive.SHA256, Size: archive.Size}
		return nil
	}
	if t.Driver.Debian != nil {
		if user, kernel, ok := t.Driver.Debian.Wants(t.System.ID, t.Arch); ok {
			w.Driver = append(user, kernelPackages(kernel, flavours)...)
			w.Image = append(w.Image, t.Driver.Debian.Depends...)
			return nil
		}
	}
	if !ok {
		return fmt.Errorf("driver %s has no archive for %s", t.Driver.Version, t.Arch)
	}
	w.runfile = &fetch.File{URL: archive.URL, SHA256: archive.SHA256, Size: archive.Size}
	return nil
}
