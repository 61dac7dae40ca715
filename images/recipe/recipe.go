// Package recipe says what an image is made of and what it is called: plain data, made of a target
// of the matrix, options and pins. It reads no file and asks no server.
package recipe

import (
	"cmp"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Version is part of every layer's cache key. Raise it when the same inputs are to give other
// bytes.
const Version = 1

// Recipe is everything that goes into one image, pinned: the same recipe gives the same digest on
// any machine. It is plain data. --dry-run prints it, the lock and the provenance of an image hold
// it, and [Decode] reads it.
type Recipe struct {
	Schema int `json:"schema"`
	// of registries and repositories, which the pins answer
	Asked    Request           `json:"asked"`
	System   string            `json:"system"`
	Distro   distros.Distro    `json:"-"` // of System
	Driver   string            `json:"driver"`
	Branch   string            `json:"branch"`
	Arch     string            `json:"arch"`
	Tag      string            `json:"tag"`
	Profile  Profile           `json:"profile"`
	Flavours []string          `json:"flavours"`
	Base     Base              `json:"base"`
	Packages []distros.Package `json:"packages"`
	// Distroless is an image that is not built on the base: it has the packages and nothing else of
	// a system. The base only tells the repositories and their keys, and modules are compiled in
	// it.
	Distroless bool `json:"distroless,omitempty"`
	// Repositories of the matrix are used beside or instead of the base's. The image has them too.
	Repositories []matrix.Repository `json:"repositories,omitempty"`
	// instead of the base's
	OnlyThese bool `json:"onlyTheseRepositories,omitempty"`
	// whose licence a vGPU guest driver needs
	VGPU string `json:"vgpu,omitempty"`
	// what update-alternatives would have made, path to target
	Links  map[string]string `json:"links,omitempty"`
	Source Source            `json:"source"`
	// components of the driver, in the order of their names
	Fabric []Component `json:"fabric,omitempty"`
	// kernel modules of other projects, in the order of their names
	Companions []Companion `json:"companions,omitempty"`
	// of the driver's kernel sources, by name
	Patches  []matrix.Patch `json:"patches,omitempty"`
	LibDir   string         `json:"libDir"`
	LibDir32 string         `json:"libDir32,omitempty"`
	// our programs; none in a lock
	Entrypoint []Binary `json:"entrypoint,omitempty"`
	// further tags: the GPU Operator's, with the branch
	Aliases []string `json:"aliases,omitempty"`
	// the image can compile: it has compiler and sources
	Toolchain bool `json:"toolchain"`
	// the image has the sources of the kernel modules
	Sources  bool              `json:"sources"`
	Compiler []distros.Package `json:"compiler,omitempty"` // what compiles modules
	// whose modules the image has, newest first
	Kernels []Kernel `json:"kernels,omitempty"`
	// flavours of those modules
	PrecompiledFlavours []string `json:"precompile,omitempty"`
	// of those; empty: all that the sources offer
	Modules []string `json:"modules,omitempty"`
	// those modules are in KMMDir too
	KMM bool `json:"kmm,omitempty"`
	// SHA-256 of the certificate whose key signs those modules
	Signer      string      `json:"signer,omitempty"`
	Compression Compression `json:"compression"`
	// SOURCE_DATE_EPOCH, seconds
	Epoch int64 `json:"epoch"`
	// kernels that the modules compile on
	Kernel driverinfo.KernelRule `json:"kernel,omitzero"`
	// highest version of CUDA that the driver runs natively
	CUDA string `json:"cuda,omitempty"`
	// what is known of the driver's release
	Advisories []driverinfo.Advisory `json:"advisories,omitempty"`
	// compatibility rules that --allow-incompatible set aside
	Overridden []string    `json:"overridden,omitempty"`
	Builder    BuilderInfo `json:"builder,omitzero"`
}

// Kernel is a kernel whose modules the image has.
type Kernel struct {
	Release string            `json:"release"`
	Headers []distros.Package `json:"headers"` // what comes on top of the compiler
	// The image that has compiler and headers of the kernel, by digest; none: packages have them.
	Toolkit *Base `json:"toolkit,omitempty"`
	// Signed are the packages with the modules themselves, by flavour, which the distribution built
	// and signed; none: the modules are compiled.
	Signed map[string][]distros.Package `json:"signed,omitempty"`
}

// Base is the image below, by digest. Location is where this build reads it from and no part of the
// result.
type Base struct {
	// canonical repository:tag; empty for a base that came from a file
	Name     string `json:"name,omitempty"`
	Digest   string `json:"digest"`
	Location string `json:"-"`
}

// Source is where the driver comes from: one archive, in one of two forms, or a set of Debian
// packages.
type Source struct {
	Runfile  *fetch.File       `json:"runfile,omitempty"` // a .run archive
	Redist   *fetch.File       `json:"redist,omitempty"`  // an archive of NVIDIA's redist folder
	Packages []distros.Package `json:"packages,omitempty"`
}

// Archive is the one archive, nil for packages.
func (s Source) Archive() *fetch.File { return cmp.Or(s.Runfile, s.Redist) }

// Binary is one of our own programs, as it goes into usr/local/bin, or usr/bin (see entrypoint.go).
type Binary struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Path   string `json:"-"` // on this machine
}

// BuilderInfo names the driver-build that made the image.
type BuilderInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
}

// Target names the recipe in progress and messages: "535.261.03-debian12 amd64".
func (r *Recipe) Target() string { return r.Tag + " " + r.Arch }

// Time is the time of all files, layers and the image.
func (r *Recipe) Time() time.Time { return time.Unix(r.Epoch, 0).UTC() }

// Digests are the digests of packages: what a layer depends on, with the keys that they were
// checked by, so that a layer is not taken for checked when other keys count. The addresses are
// left out, because every mirror serves the same bytes.
func Digests(pkgs []distros.Package) []string {
	sums := make([]string, len(pkgs))
	for i, p := range pkgs {
		sums[i] = strings.Join(append([]string{p.Digest()}, p.Keys...), " ")
	}
	return sums
}

// Digests are those of the archive or of the packages.
func (s Source) Digests() []string {
	if file := s.Archive(); file != nil {
		return []string{file.SHA256}
	}
	return Digests(s.Packages)
}

// AllPackages lists all packages of a recipe, each once.
func (r *Recipe) AllPackages() (all []distros.Package) {
	seen := map[string]bool{}
	r.eachPackage(func(p *distros.Package) {
		if !seen[p.Digest()] {
			seen[p.Digest()] = true
			all = append(all, *p)
		}
	})
	return all
}

// Files lists what a recipe downloads, besides the base, each once.
func (r *Recipe) Files() (files []fetch.File) {
	for _, p := range r.AllPackages() {
		files = append(files, PackageFile(p))
	}
	r.eachFile(func(f *fetch.File) { files = append(files, *f) })
	for _, p := range r.Patches {
		if p.URL != "" {
			files = append(files, fetch.File{URL: p.URL, SHA256: p.SHA256})
		}
	}
	return files
}

// PackageFile is the download of a package.
func PackageFile(p distros.Package) fetch.File {
	return fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size, Listed: true}
}
