// Package packages finds, reads and installs the packages of operating systems. Both kinds, .deb
// and .rpm, are behind one seam, [manager]. Nothing of a package is executed.
package packages

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// Env is what packages are found and read with.
type Env struct {
	Store *fetch.Store
	Fetch *fetch.Client
	Jobs  int                   // downloads and packages unpacked at a time; 0: 4
	XZ    compression.XZProgram // "": in Go

	// Machine is the root of this machine, for the subscription that repositories may ask for and
	// that is mounted into containers of subscribed hosts; nothing of it goes into images. nil:
	// there is none.
	Machine       fs.FS
	AllowRollback bool // accept an index of packages that is older than one seen before
}

// AtOnce is how many downloads and packages are worked on at a time.
func (e Env) AtOnce() int {
	if e.Jobs > 0 {
		return e.Jobs
	}
	return 4
}

// Sources are the repositories of a base, and what matrix and command line say of them.
type Sources struct {
	Distro       distros.Distro
	Arch         string
	Repositories []matrix.Repository // added to those of the base
	OnlyThese    bool                // instead of those of the base
	Components   []string            // added to the repositories of the base
	AllowExpired bool                // accept indexes past their Valid-Until
	Mirror       string              // as in recipe.Options
	// whose headers may be in repositories that the base has switched off
	Kernels []string
	// the repository with the modules that the distribution signed counts too
	Signed bool
}

// SourcesOf are those of a target.
func SourcesOf(t matrix.Target, o recipe.Options) Sources {
	return Sources{
		Distro: t.Distro, Arch: t.Arch, Repositories: t.System.Repositories, OnlyThese: t.System.ReplaceRepositories, Components: t.System.Components,
		AllowExpired: t.System.AllowExpired, Mirror: o.Mirror, Kernels: o.Kernels,
		Signed: o.SignedModules,
	}
}

// manager is what a kind of packages has of its own: its repositories, its archives and its record
// of what is installed. debManager and rpmManager implement it.
type manager interface {
	// open reads the base's configuration and, verified, the heads of the repositories that it
	// names.
	open(ctx context.Context, env Env, s Sources, base *rootfs.Tree) (Repositories, error)
	// reader returns a Reader for the packages of these sources.
	reader(env Env, s Sources, base *rootfs.Tree) (Reader, error)
	// record writes into tree, which lies over lower, that the packages are installed, and removes
	// what older versions of them left there.
	record(tree, lower *rootfs.Tree, all []Unpacked, when time.Time) error
	// configure adds repositories to those that the image itself knows.
	configure(tree *rootfs.Tree, all []matrix.Repository) error
	// installed lists the packages that a root has; none is not an error.
	installed(tree *rootfs.Tree) ([]Installed, error)
}

// managerOf is the one of a system, or of the system whose programs it has in images.
func managerOf(d distros.Distro) manager {
	if distros.Userland(d).PackageManager() == "rpm" {
		return rpmManager{}
	}
	return debManager{}
}

// Unpacked is a package: its files as they are in the archive, and what describes it.
type Unpacked struct {
	Name, Version string
	Tree          *rootfs.Tree
	// for an image that no base is below: without conversions between character sets
	Distroless bool
	list       []string      // absolute paths of what went into the image, once it is there
	deb        *dpkg.Deb     // of debManager
	rpm        *rpmfile.File // of rpmManager
}

// Installed is an installed package.
type Installed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch"`

	// What bills of materials say besides; "" where the record does not have it.
	Kind          string `json:"-"` // "deb" or "rpm"
	Source        string `json:"-"` // the source package that it was built from
	SourceVersion string `json:"-"`
	Supplier      string `json:"-"` // the maintainer of a .deb, the vendor of an .rpm
	Licence       string `json:"-"` // of an .rpm, in its own words
}

// InstalledIn lists the packages of a root. It asks both managers: an image need not say which
// system it is of.
func InstalledIn(tree *rootfs.Tree) (all []Installed, err error) {
	for _, m := range []manager{debManager{}, rpmManager{}} {
		some, err := m.installed(tree)
		if err != nil {
			return nil, fmt.Errorf("packages of the image: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}
