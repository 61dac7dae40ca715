package headers

import (
	"archive/tar"
	"context"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// manager finds and opens the packages of one kind, .deb or .rpm. The files in them are treated in
// the same way for both.
type manager interface {
	// find returns the packages to fetch for one of the wants, which come from
	// distros.Distro.Headers.
	find(ctx context.Context, wants []string) (*plan, error)
	// client returns the client for downloading a package.
	client(url string) (*fetch.Client, error)
	// members calls add for each file in a package, after checking that the package is the wanted
	// one. The files count only when members returns no error.
	members(in io.Reader, p distros.Package, add func(h *tar.Header, r io.Reader) error) error
}

// plan lists the packages to fetch.
type plan struct {
	packages []distros.Package // dependencies first, the kernel's own headers last
	folder   string            // see UnavailableError.Folder
}

// manager returns the manager of the system. done closes connections.
func (f *fetcher) manager(ctx context.Context) (m manager, done func(), err error) {
	if f.distro.PackageManager() == "rpm" {
		return f.rpm()
	}
	return f.deb(ctx)
}

// usable opens each repository separately, because one that cannot be used must not hide the
// others. It records in e which repositories were searched and which were not.
func usable[S any](
	ctx context.Context,
	log *slog.Logger,
	e *UnavailableError,
	sources []S,
	open func(S) error,
	describe func(S) string,
) (usable []S, err error) {
	failed := make([]error, len(sources))
	g := errgroup.Group{}
	g.SetLimit(parallel)
	for i := range sources {
		g.Go(func() error {
			failed[i] = open(sources[i])
			return nil
		})
	}
	_ = g.Wait() // never an error: the errors are in failed
	for i, err := range failed {
		switch {
		case err == nil:
			usable = append(usable, sources[i])
			e.Looked = append(e.Looked, describe(sources[i]))
		case local(err), ctx.Err() != nil:
			return nil, err
		default:
			e.Failed = append(e.Failed, err.Error())
			log.Warn("repository left out", "error", err)
		}
	}
	return usable, nil
}

// because returns an error of the disk or of ctx as it is, and e with any other one as its reason.
func (e *UnavailableError) because(ctx context.Context, err error) error {
	if local(err) || ctx.Err() != nil {
		return err
	}
	e.Err = err
	return e
}
