package headers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// ErrPackage says that a package is not what the repository's index says, or not one of kernel
// headers.
var ErrPackage = errors.New("not a package of kernel headers")

// UnavailableError says that the repositories of the image do not have the headers of a kernel.
type UnavailableError struct {
	Release string   // release of the kernel, as printed by uname -r
	Package string   // the package that was searched; "" when the release cannot have one
	Looked  []string // repositories that were searched, as "URI suite components"
	Failed  []string // repositories and packages that could not be used, with the reason
	Newest  string   // of the releases of the same flavour whose headers the repositories have
	Folder  string   // folder of the image's repository configuration; "": apt's
	Err     error    // a reason other than a missing package; may be nil
}

func (e *UnavailableError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no headers for kernel %s from the package repositories", e.Release)
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	case len(e.Looked) > 0:
		fmt.Fprintf(&b, ": there is no %s in %s", e.Package, strings.Join(e.Looked, ", "))
	}
	if len(e.Failed) > 0 {
		fmt.Fprintf(&b, "; could not be used: %s", strings.Join(e.Failed, "; "))
	}
	if e.Newest != "" {
		fmt.Fprintf(&b, "; there are headers for %s", e.Newest)
	}
	b.WriteString(
		". Install them on the host and run with hostPID or mount its /usr at /host/usr, or use an image with modules for this kernel, or mount a file into " +
			cmp.Or(
				e.Folder,
				"/etc/apt/sources.list.d",
			) + " that adds a repository which has them (distributions keep replaced kernels in their snapshot archives and vaults)",
	)
	if e.Newest != "" {
		b.WriteString(", or boot a kernel that has headers")
	}
	return b.String()
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// because returns an error of the disk or of ctx as it is, and e with any other one as its reason.
func (e *UnavailableError) because(ctx context.Context, err error) error {
	if local(err) || ctx.Err() != nil {
		return err
	}
	e.Err = err
	return e
}

func notLocal(err error) bool { return !local(err) }

// local says whether the disk of this machine causes an error, and not the repository.
func local(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EROFS)
}
