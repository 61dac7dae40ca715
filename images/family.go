package images

import (
	"context"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// family is what a kind of packages has of its own: its repositories, its archives and its record of what is installed.
// debFamily and rpmFamily are all there are.
type family interface {
	// open reads the base's configuration and, verified, the heads of the repositories that it names.
	open(ctx context.Context, b *Builder, t matrix.Target, o PlanOptions, tree *rootfs.Tree) (repositories, error)
	// reader gives what brings and reads the packages of a recipe. lower is the tree of its base.
	reader(b *Builder, r *Recipe, lower *rootfs.Tree) (packageReader, error)
	// record writes into tree, which lies over lower, that the packages are installed, and removes what older versions of them
	// left there.
	record(tree, lower *rootfs.Tree, all []unpacked, when time.Time) error
	// configure adds repositories to those that the image itself knows.
	configure(tree *rootfs.Tree, all []matrix.Repository) error
	// installed lists the packages that a root has; none is not an error.
	installed(tree *rootfs.Tree) ([]PackageInfo, error)
}

// packageReader is how packages are brought and taken apart.
type packageReader struct {
	// client downloads from a URL: repositories can ask for certificates and credentials.
	client func(url string) (*fetch.Client, error)
	// unpack reads a package from a downloaded file, verified as far as its digest has not done that.
	unpack func(ctx context.Context, file string, p distros.Package, spool *rootfs.Spool) (unpacked, error)
}

// unpacked is a package: its files as they are in the archive, and what describes it.
type unpacked struct {
	name string
	tree *rootfs.Tree
	list []string      // absolute paths of what went into the image, once it is there
	deb  *dpkg.Deb     // of debFamily
	rpm  *rpmfile.File // of rpmFamily
}

// repositories are those of a base, verified but not yet read.
type repositories interface {
	Digest() string // of everything that resolving can depend on
	load(ctx context.Context) (packageIndex, error)
	client(url string) (*fetch.Client, error) // as packageReader has it
}

// packageIndex is what the repositories offer.
type packageIndex interface {
	Notes() []string
	// resolve is the closure over what the base has; wants in the family's own words.
	resolve(ctx context.Context, want []string) ([]distros.Package, error)
	// find gives one package alone. A want without a version means the one of a driver's time.
	find(want, driver string) (*distros.Package, error)
	// kernels lists the kernels with headers, in any order.
	kernels(d distros.Distro, arch string) []offeredKernel
}

func (r *Recipe) family() (family, error) {
	d, err := distros.Lookup(r.System)
	if err != nil {
		return nil, err
	}
	return familyOf(distros.Userland(d))
}

func familyOf(d distros.Distro) (family, error) {
	switch kind := d.PackageManager(); kind {
	case "apt":
		return debFamily{}, nil
	case "rpm":
		return rpmFamily{}, nil
	default:
		return nil, fmt.Errorf("%s has packages of a kind that is not known: %q", d.ID(), kind)
	}
}

func packageFile(p distros.Package) fetch.File {
	return fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size}
}
