package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
)

// Request is what registries and repositories are asked for. It depends on the matrix and the options alone and holds
// neither credentials nor paths of this machine.
type Request struct {
	Base       string   `json:"base,omitempty"`       // the reference as it is written; "": an image of this machine
	Mirror     string   `json:"mirror,omitempty"`     // of packages
	Components []string `json:"components,omitempty"` // added to the repositories of the base
	KernelFrom []string `json:"kernelFrom,omitempty"` // references as they are written; "": an image of this machine
	Wants
}

// Wants is what a target asks of the package repositories, in the words of the package manager.
type Wants struct {
	Image    []string `json:"image,omitempty"`    // what the image has besides the driver
	Compiler []string `json:"compiler,omitempty"` // what compiles modules for the image: nothing else, so that it is the same for all images
	// Headers are by the release of the kernel.
	Headers    map[string][]string `json:"headers,omitempty"`
	Driver     []string            `json:"driver,omitempty"`     // packages with the driver; none: it comes as an archive
	Companions []string            `json:"companions,omitempty"` // packages with the sources of companions
}

// PublicImages are references to images as a file may keep them: "" for an image of this machine.
func PublicImages(refs []string) (public []string) {
	for _, ref := range refs {
		if oci.IsLocal(ref) {
			ref = ""
		}
		public = append(public, ref)
	}
	return public
}

// ask decides what registries and repositories are asked for, and where an archive of the driver comes from.
func (r *Recipe) ask(t matrix.Target, o Options) (err error) {
	r.Asked = Request{Base: PublicImages([]string{r.Base.Location})[0], Components: t.System.Components, Mirror: PublicMirror(o.Mirror)}
	if len(o.Kernels) > 0 {
		r.Asked.KernelFrom = PublicImages(o.KernelFrom)
	}
	r.Asked.Wants, r.Source, err = wants(t, o, r)
	return err
}

// wants decides what goes in: a toolchain or only what loading takes, headers for the kernels to compile for,
// and the driver, which is packages or an archive.
func wants(t matrix.Target, o Options, r *Recipe) (w Wants, archive Source, err error) {
	d := t.Distro
	w.Image = d.Toolchain(t.Arch)
	if !r.Toolchain {
		w.Image = d.Runtime(t.Arch)
	}
	if len(r.Fabric) > 0 {
		w.Image = append(w.Image, d.Fabric(t.Arch)...)
	}
	if len(r.Kernels) > 0 && len(o.KernelFrom) == 0 {
		w.Compiler = d.Toolchain(t.Arch)
	}
	for _, k := range r.Kernels {
		if w.Headers == nil {
			w.Headers = map[string][]string{}
		}
		if len(o.KernelFrom) > 0 {
			w.Headers[k.Release] = nil
			continue
		}
		if err := CheckPackaged(d); err != nil {
			return w, archive, fmt.Errorf("--kernel %q: %w", k.Release, err)
		}
		headers := d.Headers(k.Release)
		if headers == nil {
			return w, archive, fmt.Errorf("%w: --kernel %q: this is no release of a kernel of %s: driver-build kernels --os %s lists them",
				ErrKernel, k.Release, d.ID(), d.ID())
		}
		w.Headers[k.Release] = headers
	}
	if w.Companions, err = companionPackages(t, r); err != nil {
		return w, archive, err
	}
	archive, err = w.driver(t, o, r.Flavours)
	return w, archive, err
}

// CheckPackaged returns ErrKernel for a system whose kernel headers are in no package.
func CheckPackaged(d distros.Distro) error {
	if d.PackageManager() != "" {
		return nil
	}
	return fmt.Errorf("%w: kernel headers of %s come with the host and are in no package: give an image that has them with --kernel-from, or leave --kernel out: then the node compiles the modules", ErrKernel, d.ID())
}

// driver decides where the driver comes from: the archive of the command line, the system's own packages
// where the row names them, or the row's archive. It returns a source without packages, which are wants.
func (w *Wants) driver(t matrix.Target, o Options, flavours []string) (Source, error) {
	archive, ok := t.Driver.Archives[t.Arch]
	if o.Source != "" {
		if !ok {
			return Source{}, fmt.Errorf("--source %s: the matrix has no checksum of the %s archive of driver %s to check it against: add archives.%s to the driver",
				o.Source, t.Arch, t.Driver.Version, t.Arch)
		}
		return archiveSource(archive, o.Source), nil
	}
	if t.Driver.Debian != nil {
		if user, kernel, ok := t.Driver.Debian.Wants(t.System.ID, t.Arch); ok {
			w.Driver = append(user, kernelPackages(kernel, flavours)...)
			w.Image = append(w.Image, t.Driver.Debian.Depends...)
			return Source{}, nil
		}
	}
	if !ok {
		return Source{}, fmt.Errorf("driver %s has no archive for %s", t.Driver.Version, t.Arch)
	}
	return archiveSource(archive, archive.URL), nil
}

// archiveSource is an archive of the matrix, read from an address.
func archiveSource(a matrix.Archive, address string) Source {
	file := &fetch.File{URL: address, SHA256: a.SHA256, Size: a.Size}
	if a.Redist() {
		return Source{Redist: file}
	}
	return Source{Runfile: file}
}

// kernelPackages picks, of the packages with kernel module sources, those of the flavours wanted.
func kernelPackages(names, flavours []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.Contains(flavours, PackageFlavour(name))
	})
}

// PackageFlavour is the flavour of the sources in one of Debian's packages with kernel modules.
func PackageFlavour(name string) string {
	if strings.Contains(name, "-open-kernel-") {
		return "open"
	}
	return "proprietary"
}
