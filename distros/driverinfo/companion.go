package driverinfo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// The companions that there are: kernel modules of other projects that are compiled against the
// driver's.
const (
	NvidiaFS = "nvidia-fs" // GPUDirect Storage; the kernel calls it nvidia_fs
	GDRDrv   = "gdrdrv"    // GDRCopy
)

// modules are the driver's own modules in the order of loading, under the names of their files.
var modules = []struct {
	name  string
	needs []string // all of the driver's modules that it needs, nearest first
}{
	{"nvidia", nil}, {"nvidia-uvm", []string{"nvidia"}}, {"nvidia-modeset", []string{"nvidia"}},
	{"nvidia-drm", []string{"nvidia-modeset", "nvidia"}}, {"nvidia-peermem", []string{"nvidia"}},
}

// Modules returns the driver's own modules in the order of loading, under the names of their files.
// A driver may have more of them than a node needs.
func Modules() (names []string) {
	for _, m := range modules {
		names = append(names, m.name)
	}
	return names
}

// RequiredModules returns those of Modules without which nothing works.
func RequiredModules() []string { return Modules()[:2] }

// Needs returns all of the driver's modules that one of them needs, nearest first.
func Needs(module string) []string {
	for _, m := range modules {
		if m.name == module {
			return m.needs
		}
	}
	return nil
}

// Companions returns the names of all companions, in the order in which they are compiled.
func Companions() []string { return []string{NvidiaFS, GDRDrv} }

// Companion is a kernel module of another project that the image compiles, or has compiled, with
// the driver's. A set of modules of the image has it, or says why it was left out.
type Companion struct {
	Name    string `json:"name"`    // NvidiaFS or GDRDrv: the module's file name without ".ko"
	Version string `json:"version"` // "2.13.5"
	// of its archive or package, 64 or 128 hex digits: part of the key of compiled modules
	Digest string `json:"digest"`
	// Sources is the folder with its sources: "/usr/src/nvidia-fs-2.13.5". "": the image has only
	// what is compiled.
	Sources string `json:"sources,omitempty"`
	// Flavours are those of the driver's modules that it can be compiled against; empty: all.
	Flavours []string `json:"flavours,omitempty"`
}

// Fits reports whether the companion can be compiled against the driver's modules of a flavour.
func (c Companion) Fits(flavour string) bool {
	return len(c.Flavours) == 0 || slices.Contains(c.Flavours, flavour)
}

// Companion returns the image's companion of a name.
func (i Description) Companion(name string) (Companion, bool) {
	at := slices.IndexFunc(i.Companions, func(c Companion) bool { return c.Name == name })
	if at < 0 {
		return Companion{}, false
	}
	return i.Companions[at], true
}

var (
	companionVersion = lazyregexp.New(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	companionDigest  = lazyregexp.New(`^([0-9a-f]{64}|[0-9a-f]{128})$`)
)

// checkCompanions checks the list. Folders are narrow on purpose: make runs in a copy of them.
func (i Description) checkCompanions() error {
	for _, c := range i.Companions {
		wrong := ""
		switch {
		case !slices.Contains(Companions(), c.Name):
			wrong = "is not known: it is one of " + strings.Join(Companions(), ", ")
		case !companionVersion().MatchString(c.Version):
			wrong = fmt.Sprintf("has %.80q, which is no version", c.Version)
		case !companionDigest().MatchString(c.Digest):
			wrong = fmt.Sprintf("has %.140q, which is no digest", c.Digest)
		case c.Sources != "" && c.Sources != CompanionSources(c.Name, c.Version):
			wrong = fmt.Sprintf(
				"has its sources in %.140q, not in %s",
				c.Sources,
				CompanionSources(c.Name, c.Version),
			)
		}
		if wrong != "" {
			return malformed("companion %.40q %s", c.Name, wrong)
		}
	}
	return nil
}

// CompanionSources returns the folder in an image with the sources of a companion.
func CompanionSources(
	name, version string,
) string {
	return path.Join("/usr/src", name+"-"+version)
}
