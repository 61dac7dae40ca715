package headers

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// manager finds and opens the packages of one kind, .deb or .rpm. The files in them are treated in
// the same way for both.
type manager interface {
	// find returns the packages to fetch for the wants, which come from distros.Distro.Headers. It
	// records in e which repositories were searched and which could not be; without an error and a
	// plan they do not have the packages.
	find(ctx context.Context, wants []string, e *UnavailableError) (plan, error)
	// client returns the client for downloading a package.
	client(url string) (*fetch.Client, error)
	// members calls add for each file in a package, after checking that the package is the wanted
	// one. The files count only when members returns no error.
	members(in io.Reader, p distros.Package, add func(h *tar.Header, r io.Reader) error) error
}

// plan lists the packages to fetch, dependencies first, the kernel's own headers last.
type plan []distros.Package

// manager returns the manager of the system.
func (f *fetcher) manager(ctx context.Context) (manager, error) {
	if f.distro.PackageManager() == "rpm" {
		return f.rpm()
	}
	return f.deb(ctx)
}

var errUnusable = errors.New("none of the package repositories can be used")

// attempts for each request, with pauses of half a second and a second: a repository that does not
// answer must not delay the node for long, and the container is restarted anyway.
const attempts = 3

// newClient returns a client that keeps downloads in the store.
func (f *fetcher) newClient(transport http.RoundTripper) *fetch.Client {
	return &fetch.Client{
		Store:     f.store,
		HTTP:      &http.Client{Transport: transport},
		Attempts:  attempts,
		Backoff:   f.backoff,
		UserAgent: "driver-entrypoint",
	}
}

// searched records which repositories were read. One that cannot be used must not hide the others:
// an image may have its distribution's own repositories in a network that has only a mirror.
func (f *fetcher) searched(e *UnavailableError, releases interface {
	Opened() []string
	LeftOut() []error
}) {
	e.Looked = append(e.Looked, releases.Opened()...)
	for _, err := range releases.LeftOut() {
		f.leftOut(e, err)
	}
}

func (f *fetcher) leftOut(e *UnavailableError, err error) {
	err = f.heal(err)
	e.Failed = append(e.Failed, err.Error())
	f.Log.Warn("repository left out", "error", err)
}

// read logs what the indexes of the repositories have, and what a person should know of them.
func (f *fetcher) read(index interface {
	Len() int
	Notes() []string
}, begin time.Time) {
	f.Log.Info(
		"package repositories read",
		"headers", index.Len(),
		"duration", time.Since(begin).Round(time.Millisecond),
	)
	for _, note := range index.Notes() {
		f.Log.Warn("package repositories", "note", note)
	}
}
