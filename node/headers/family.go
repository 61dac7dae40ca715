package headers

import (
	"archive/tar"
	"context"
	"io"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// family is a kind of packages, .deb or .rpm: it finds and opens them. The files in them are treated in the
// same way for both.
type family interface {
	// find returns the packages to fetch for one of the wants, which come from distros.Distro.Headers.
	find(ctx context.Context, wants []string) (*plan, error)
	// client returns the client for downloading a package.
	client(url string) (*fetch.Client, error)
	// members calls add for each file in a package, after checking that the package is the wanted one. The files
	// count only when members returns no error.
	members(in io.Reader, p item, add func(h *tar.Header, r io.Reader) error) error
}

// plan lists the packages to fetch.
type plan struct {
	packages []item // dependencies first, the kernel's own headers last
	folder   string // see UnavailableError.Folder
}

// item is a package of a plan.
type item struct {
	distros.Package
	unpacked uint64 // size of the unpacked package; 0: unknown
	upgrade  bool   // the image has another version: the package may replace files
}

const maxPackages = 50 // of one kernel; in practice one to three

// family returns the family of the system. done closes connections.
func (f *fetcher) family() (fam family, done func(), err error) {
	if f.Distro.PackageManager() == "rpm" {
		return f.rpm()
	}
	return f.deb()
}
