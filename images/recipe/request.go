package recipe

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
)

// Request is what registries and repositories are asked for. It depends on the matrix and the
// options alone and holds neither credentials nor paths of this machine.
type Request struct {
	// the reference as it is written; "": an image of this machine
	Base       string   `json:"base,omitempty"`
	Mirror     string   `json:"mirror,omitempty"`     // of packages
	Components []string `json:"components,omitempty"` // added to the repositories of the base
	// references as they are written; "": an image of this machine
	KernelFrom []string `json:"kernelFrom,omitempty"`
	Wants
}

// Wants is what a target asks of the package repositories, in the words of the package manager.
type Wants struct {
	Image []string `json:"image,omitempty"` // what the image has besides the driver
	// what a distroless image counts as installed; none: the base's packages count
	Assumed []string `json:"assumed,omitempty"`
	// what compiles modules for the image: nothing else, so that it is the same for all images
	Compiler []string `json:"compiler,omitempty"`
	// Headers are by the release of the kernel.
	Headers map[string][]string `json:"headers,omitempty"`
	// Signed are the flavours of the modules that the distribution has built and signed, by the
	// release of the kernel.
	Signed map[string][]string `json:"signed,omitempty"`
	// packages with the driver; none: it comes as an archive
	Driver []string `json:"driver,omitempty"`
	// packages with the sources of companions
	Companions []string `json:"companions,omitempty"`
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

// ask decides what registries and repositories are asked for: a toolchain or only what loading
// takes, headers for the kernels to compile for, and the driver, which is packages or an archive.
func (r *Recipe) ask(t matrix.Target, o Options) error {
	d := t.Distro
	r.Asked = Request{Base: PublicImages([]string{r.Base.Location})[0], Components: t.System.Components, Mirror: PublicMirror(o.Mirror)}
	w := &r.Asked.Wants
	w.Image = d.Toolchain(t.Arch)
	if !r.Toolchain {
		w.Image = d.Runtime(t.Arch)
	}
	if r.Distroless {
		less := d.Distroless(t.Arch)
		w.Image = less.Packages
		w.Assumed = less.Assumed
	}
	if len(r.Fabric) > 0 {
		w.Image = append(w.Image, d.Fabric(t.Arch)...)
	}
	err := r.askModules(d, o)
	if err != nil {
		return err
	}
	err = r.addCompanions(t)
	if err != nil {
		return err
	}
	archive, ok := t.Driver.Archives[t.Arch]
	user, kernel, packaged := t.Driver.Debian.Wants(t.System.ID, t.Arch)
	switch {
	case o.Source != "" && !ok:
		return fmt.Errorf("--source %s: the matrix has no checksum of the %s archive of driver %s to check it against: add archives.%s to the driver",
			o.Source, t.Arch, t.Driver.Version, t.Arch)
	case o.Source == "" && packaged: // the row names the system's own packages
		other := func(name string) bool { return !slices.Contains(r.Flavours, PackageFlavour(name)) }
		w.Driver = append(user, slices.DeleteFunc(kernel, other)...)
		w.Image = append(w.Image, t.Driver.Debian.Depends...)
		return nil
	case !ok:
		return fmt.Errorf("driver %s has no archive for %s", t.Driver.Version, t.Arch)
	}
	file := &fetch.File{URL: cmp.Or(o.Source, archive.URL), SHA256: archive.SHA256, Size: archive.Size}
	if archive.Redist() {
		r.Source.Redist = file
	} else {
		r.Source.Runfile = file
	}
	return nil
}

// askModules decides what the modules of the kernels come from: a compiler and headers, images that
// have both, or the distribution.
func (r *Recipe) askModules(d distros.Distro, o Options) error {
	w := &r.Asked.Wants
	if len(r.Kernels) == 0 {
		return nil
	}
	if o.SignedModules {
		return r.askSigned(d)
	}
	toolkits := len(o.KernelFrom) > 0
	if toolkits {
		r.Asked.KernelFrom = PublicImages(o.KernelFrom)
	} else {
		w.Compiler = d.Toolchain(r.Arch)
	}
	w.Headers = map[string][]string{}
	for _, k := range r.Kernels {
		if toolkits {
			w.Headers[k.Release] = nil
			continue
		}
		err := CheckPackaged(d)
		if err != nil {
			return fmt.Errorf("--kernel %q: %w", k.Release, err)
		}
		w.Headers[k.Release] = d.Headers(k.Release)
		if w.Headers[k.Release] == nil {
			return fmt.Errorf("%w: --kernel %q: this is no release of a kernel of %s: driver-build kernels --os %s lists them",
				ErrKernel, k.Release, d.ID(), d.ID())
		}
	}
	return nil
}

// askSigned asks for the modules that the distribution signed, and for what links them.
func (r *Recipe) askSigned(d distros.Distro) error {
	signer, ok := distros.SigningModules(d)
	if !ok {
		return fmt.Errorf("%w: --modules-from distribution: %s has no signed modules of NVIDIA's driver in its "+
			"repositories; Ubuntu and RHEL 10 have: leave it out, and sign with --module-key", ErrKernel, d.ID())
	}
	w := &r.Asked.Wants
	w.Signed = map[string][]string{}
	for _, k := range r.Kernels {
		w.Signed[k.Release] = r.PrecompiledFlavours
	}
	for _, flavour := range r.PrecompiledFlavours {
		w.Compiler = append(w.Compiler, signer.ModuleLinker(flavour)...)
	}
	return nil
}

// CheckPackaged returns ErrKernel for a system whose kernel headers are in no package.
func CheckPackaged(d distros.Distro) error {
	if d.PackageManager() != "" {
		return nil
	}
	return fmt.Errorf(
		"%w: kernel headers of %s come with the host and are in no package: give an image that has them with --kernel-from, or leave --kernel out: then the node compiles the modules",
		ErrKernel,
		d.ID(),
	)
}

// PackageFlavour is the flavour of the sources in one of Debian's packages with kernel modules.
func PackageFlavour(name string) string {
	if strings.Contains(name, "-open-kernel-") {
		return "open"
	}
	return "proprietary"
}

// Options are the choices that are not in the matrix. The zero value takes everything from the row.
type Options struct {
	// another base: a reference, oci:DIR, oci-archive:FILE or docker-archive:FILE
	Base   string
	Source string // where the .run archive is: a URL; its checksum is still the row's
	// instead of the addresses in the base's apt configuration; see apt.WithMirror
	Mirror      string
	Profile     Profile     // "": full
	Compression Compression // "": zstd, or gzip where something reads nothing else
	Epoch       int64       // SOURCE_DATE_EPOCH

	Kernels []string // releases to compile modules for
	// all kernels in one image, <driver>-<os>; without it there must be one kernel, and the tag
	// names it
	OneImage bool
	// without Kernels: neither compiler nor sources are in the image, which gets modules from
	// elsewhere
	Thin bool
	// with Kernels: compiler and sources are in the image all the same, for other kernels
	Toolchain bool
	Sources   bool // with Kernels: the sources of the modules are in the image
	// with Kernels: of those modules; empty: the one that the driver's own installer would take
	Flavours []string
	Modules  []string // with Kernels: names of the modules; empty: all that the sources offer
	// KernelFrom are images that have the headers and the compiler of the kernels (see
	// images/headersimage); empty: packages have them.
	KernelFrom []string
	// SignedModules takes the modules of Kernels that the distribution has built and signed, as they
	// are: nothing is compiled, and Signer is nil.
	SignedModules bool
	// with Kernels: the modules are laid out for Kernel Module Management too; of one flavour
	KMM    bool
	Signer *x509.Certificate // with Kernels: whose key signs the modules; nil: unsigned
}

// Compression of the layers that we build.
type Compression string

// The compressions there are.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// compression is the one that the options choose for a system. KMM's validation of an image reads
// no zstd.
func (o Options) compression(d distros.Distro) Compression {
	if o.Compression == "" && (o.KMM || !d.ReadsZstd()) {
		return Gzip
	}
	return cmp.Or(o.Compression, Zstd)
}

// ParseCompression reads the value of --compression.
func ParseCompression(s string) (Compression, error) {
	switch c := Compression(strings.ToLower(s)); c {
	case Gzip, Zstd:
		return c, nil
	default:
		return "", fmt.Errorf("compression %q is not known: use gzip or zstd", s)
	}
}
