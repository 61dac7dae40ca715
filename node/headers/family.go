package headers

import (
	"archive/tar"
	"context"
	"io"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// family is a kind of packages, .deb or .rpm: where they are looked for and how one is opened. What is done with the files
// in them is the same for both.
type family interface {
	// find says what to bring for one of the wants, which are those of distros.Distro.Headers.
	find(ctx context.Context, wants []string) (*plan, error)
	// client is for downloading a package.
	client(url string) (*fetch.Client, error)
	// members passes on what is in a package, which is checked to be the one that was wanted. What was passed on counts only when
	// it ends without an error.
	members(in io.Reader, p item, add func(h *tar.Header, r io.Reader) error) error
}

// plan is what to bring.
type plan struct {
	packages []item // what others need first, the kernel's own headers last
	folder   string // see UnavailableError
}

// item is a package of a plan.
type item struct {
	distros.Package
	unpacked uint64 // bytes that it says to have unpacked; 0: it does not
	upgrade  bool   // the image has it in another version: it may replace its files
}

const maxPackages = 50 // of one kernel; real ones have one to three

// family is that of the system. done closes connections.
func (f *fetcher) family() (fam family, done func(), err error) {
	if f.Distro.PackageManager() == "rpm" {
		return f.rpm()
	}
	return f.deb()
}
