// Package matrix parses matrix.yaml, the human-edited table that says which drivers run on which
// operating systems, and selects the pairs to build.
//
// It knows the schema, reports every mistake of a file at once with its position (see [Errors]),
// and has the rules that say which pairs cannot work (see rules.go). It does no I/O: it reads no
// file, resolves no reference and downloads nothing. A well-formed reference or URL that leads
// nowhere fails later, in the code that fetches it.
package matrix

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Matrix is a parsed file. All of its values are checked: ids and versions are unique, and every
// reference is defined.
type Matrix struct {
	Defaults   Defaults    `m:"defaults"`
	Systems    []System    `m:"systems!"` // all lists are in the order of the file
	Drivers    []Driver    `m:"drivers!"`
	Exclude    []Exclusion `m:"exclude"`
	Companions []Companion `m:"companions"`
	Advisories []Advisory  `m:"advisories"`
	Interfaces []Interface `m:"interfaces"`
}

// Defaults are settings that flags of the command override.
type Defaults struct {
	// registry and path that images are pushed to; "" if the file names none
	Repository string `m:"repository" of:"repository"`
	// one of Profiles; full if the file names none
	Profile string `m:"profile" of:"profile"`
	// registry host -> mirrors that are asked first, in order
	Mirrors map[string][]string `m:"mirrors" of:"registry:registry"`
}

// Profiles are the parts of the user-mode driver that an image may contain: see recipe.Profile.
func Profiles() []string { return []string{"full", "compute", "cuda", "cuda-tu10x", "cuda-ga10x"} }

// The flavours of the kernel modules.
const (
	Proprietary = "proprietary" // the kernel/ tree
	Open        = "open"        // the kernel-open/ tree, since R515
)

// System is an operating system that images are built for.
type System struct {
	// ID is the id of package distros, which is the second half of the tag: "ubuntu16.04".
	ID      string   `m:"id!" of:"system"`
	Base    string   `m:"base!" of:"base"`      // reference of the base image
	Archs   []string `m:"archs!" of:"arch"`     // Go names: "amd64", "arm64"
	Kernels []string `m:"kernels!" of:"kernel"` // its kernel series, lowest first: "4.4", "4.15"
	// EndOfLife is when its distribution stops to mend it; zero when that is not known.
	EndOfLife EndOfLife `m:"end-of-life"`
	// Aliases are further names for the second half of the tag: "almalinux9.4" for almalinux9.
	Aliases []string `m:"aliases" of:"alias"`
	// added to the repositories of the base: "non-free"
	Components []string `m:"components" of:"component"`
	// additional to those of the base
	Repositories []Repository `m:"repositories"`
	// use Repositories instead of those of the base, which are then not read
	ReplaceRepositories bool `m:"only-these-repositories"`
	// accept repository indexes past their Valid-Until: frozen archives
	AllowExpired bool `m:"allow-expired"`
}

// EndOfLife is the end of a system's support.
type EndOfLife struct {
	Until  string `m:"until!" of:"month"` // the last month of support, "2026-06"
	Source string `m:"source!"`           // who says so: an address
}

// Advisory returns the end as that of a driver's branch is written: it has the rules for days. ok
// is false if the end is not known.
func (e EndOfLife) Advisory() (a driverinfo.Advisory, ok bool) {
	return driverinfo.Advisory{
		Kind:   driverinfo.EndOfLife,
		Until:  e.Until,
		Source: e.Source,
	}, e.Until != ""
}

// Repository is a package repository that the matrix adds to a base: URIs, Suites and Components of
// .deb packages, or BaseURLs of .rpm packages. A repository without a key is never used.
type Repository struct {
	URIs       []string `json:"uris,omitempty" m:"uris" of:"url"`
	Suites     []string `json:"suites,omitempty" m:"suites" of:"suite"`
	Components []string `json:"components,omitempty" m:"components" of:"component"`
	// of one repository; $releasever and $basearch stay unexpanded
	BaseURLs []string `json:"baseurl,omitempty" m:"baseurl" of:"url"`
	// Key is an armoured public key, or the path of a file with it; "" when GPGKeys are set.
	Key string `json:"key,omitempty" m:"key" of:"key"`
	// paths of keys in the base; only with BaseURLs
	GPGKeys []string `json:"gpgkey,omitempty" m:"gpgkey" of:"path"`
}

// Driver is one release of the driver.
type Driver struct {
	// as in the file: "418.87.01" stays "418.87.01" in tags and URLs
	Version string `m:"version!" of:"version"`
	Branch  string `m:"branch"` // "R418"
	// by architecture; nil for a driver that only Debian has
	Archives map[string]Archive `m:"archives" of:"arch:archive"`
	Flavours []string           `m:"flavours" of:"flavour"` // Proprietary, Open, in this order
	// VGPU says whose licence a vGPU guest driver needs: one of driverinfo.VGPULicences. "": the
	// driver is for whole GPUs.
	VGPU string `m:"vgpu" of:"vgpu"`
	// on which kernels its modules compile, with its patches
	Kernel driverinfo.KernelRule `m:"kernel" of:"kernel"`
	// highest version of CUDA that it runs natively; "": as driver-build knows it
	CUDA   string  `m:"cuda" of:"cuda"`
	Debian *Debian `m:"debian"` // nil when Debian has no packages of it
	// Patches are changes to its kernel sources. Unpatched is Kernel without them, as in the file.
	Patches   []Patch `m:"patches"`
	Unpatched driverinfo.KernelRule
	// Components are the programs and libraries of machines with NVSwitch and NVLink; nil: none is
	// known.
	Components Components `m:"components" of:"components:arch:archive"`
	// Advisories are those of the matrix for this driver.
	Advisories []Advisory
}

// Archive is a file with a driver: a .run archive, or an archive of NVIDIA's redist folder.
type Archive struct {
	URL    string `m:"url!" of:"^"`
	SHA256 string `m:"sha256!" of:"sha256"` // 64 lower-case hex digits
	Size   int64  `m:"size"`                // bytes; 0: unknown
}

// redistEnding is how the names of archives in NVIDIA's redist folder end.
const redistEnding = "-archive.tar.xz"

// Redist reports whether the archive is one of NVIDIA's redist folder. Its name in the matrix says
// so, also for a copy that is read from elsewhere.
func (a Archive) Redist() bool { return strings.HasSuffix(a.URL, redistEnding) }

// Form is the word for the archive's form in lists: "run" or "redist".
func (a Archive) Form() string {
	if a.Redist() {
		return "redist"
	}
	return "run"
}

// Debian names Debian's packages of a driver. Use [Debian.Wants] and not the lists: it applies the
// versions and the architectures.
//
// The packages of the lists are installed without their dependencies, which would pull in X and the
// alternatives system. Depends is the exception.
type Debian struct {
	// ids of the systems whose archive has them, in the order of the file
	Systems []string
	// by system: the Debian version of Packages, Only and Kernel
	Versions map[string]string `m:"systems!" of:"system:debian"`
	// architectures that Debian built them for
	Archs []string `m:"archs" of:"arch"`
	// user mode, firmware and documents, on every architecture
	Packages []string `m:"packages!" of:"package"`
	// additional packages of one architecture
	Only   map[string][]string `m:"only" of:"arch:package"`
	Kernel []string            `m:"kernel!" of:"package"` // module sources
	// Extras are packages with versions of their own; any version in the archive is accepted.
	Extras []string `m:"extras" of:"package"`
	// Depends are ordinary packages that those need; they are installed with their own
	// dependencies.
	Depends []string `m:"depends" of:"package"`
}

// Wants returns the packages to take from the archive of a system for an architecture, in apt's
// notation ("libcuda1=535.261.03-1"): user is the user-mode driver, kernel the module sources. Both
// have exact versions, because the archive of a system may have a newer driver beside the wanted
// one (Debian's security suites do); only Extras have none. ok is false when Debian has no packages
// for that system and architecture, and when d is nil.
func (d *Debian) Wants(system, arch string) (user, kernel []string, ok bool) {
	if d == nil || !slices.Contains(d.Systems, system) || !slices.Contains(d.Archs, arch) {
		return nil, nil, false
	}
	pin := func(names []string) (pinned []string) {
		for _, n := range names {
			pinned = append(pinned, n+"="+d.Versions[system])
		}
		return pinned
	}
	user = append(pin(d.Packages), pin(d.Only[arch])...)
	user = append(user, d.Extras...)
	return user, pin(d.Kernel), true
}

// Exclusion excludes pairs for a reason that no rule knows. "" matches everything; Driver may end
// in ".*".
type Exclusion struct {
	System string `m:"system" of:"system"`
	Driver string `m:"driver" of:"pattern"`
	Arch   string `m:"arch" of:"arch"`
	Reason string `m:"reason!"`
}

// Selection says what to build. Empty Systems or Drivers select nothing unless All is set.
type Selection struct {
	Systems, Drivers []string // ids and versions, as in the file
	Archs            []string // empty: see ArchsOf
	// every pair that works; Systems, Drivers and Archs restrict it when given
	All       bool
	Flavours  []string // empty: those of the driver
	NoFabric  bool     // targets have no components
	NoPatches bool     // targets have no patches
	// names of the companions that targets have, or AllCompanions; empty: none
	Companions []string
	// a target without a companion that was named is no error; so with All
	IfTheyFit         bool
	AllowIncompatible bool // override the rules that can be overridden; see Target.Overridden
}

// Target is one image to build.
type Target struct {
	System     System
	Distro     distros.Distro // of System.ID
	Driver     Driver
	Arch       string
	Flavours   []string
	Overridden []string    // the rules that AllowIncompatible overrode, with their reasons
	Companions []Companion // the newest that fit, by name
}

// Tag returns the tag of the image: "418.87.01-ubuntu16.04".
func (t Target) Tag() string { return t.Driver.Version + "-" + t.System.ID }

// Platform names what package repositories belong to, a system and an architecture: "debian12
// amd64".
func (t Target) Platform() string { return t.System.ID + " " + t.Arch }
