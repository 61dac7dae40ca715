package headers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

// debManager implements manager for Debian packages and apt's repositories.
type debManager struct {
	*fetcher
	conf conf
	http *fetch.Client
}

// deb reads the image's configuration of apt.
func (f *fetcher) deb(ctx context.Context) (m manager, done func(), err error) {
	d := &debManager{fetcher: f, conf: f.readConf(ctx)}
	transport, err := newTransport(f.files, f.own(), d.conf, f.Getenv, f.Log)
	if err != nil {
		return nil, nil, err
	}
	d.http = &fetch.Client{
		Store:     f.store,
		HTTP:      transport.client(),
		Attempts:  attempts,
		UserAgent: "driver-entrypoint",
	}
	return d, transport.CloseIdleConnections, nil
}

// find finds the wanted packages by name, and the header packages that they depend on.
func (f *debManager) find(ctx context.Context, wants []string) (*plan, error) {
	e := &UnavailableError{Release: f.Release, Package: wants[0]}
	arch, _ := distros.LookupArch(f.Arch) // was checked before
	releases, err := f.open(ctx, arch.Debian, e)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	index, err := releases.Load(ctx)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	f.read(index, begin)
	libc, err := f.libc(arch.Debian)
	if err != nil {
		return nil, err
	}
	return f.plan(index, libc, wants, e)
}

// libc returns the version of the image's C library; "" when the image has no list of its packages.
func (f *debManager) libc(arch string) (dpkg.Version, error) {
	file, err := f.files.Open("var/lib/dpkg/status")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read what is installed in the image: %w", err)
	}
	defer file.Close() //nolint:errcheck // opened for reading
	status, err := dpkg.ReadStatus(file)
	if err != nil {
		return "", err
	}
	p, _ := status.Find("libc6", arch)
	return dpkg.Version(p.Get("Version")), nil
}

func (f *debManager) client(string) (*fetch.Client, error) { return f.http, nil }

// members checks no signature: the digest of the package comes from a signed index.
func (f *debManager) members(
	in io.Reader,
	p distros.Package,
	add func(h *tar.Header, r io.Reader) error,
) error {
	d, err := dpkg.OpenDeb(in)
	if err != nil {
		return err
	}
	if err := d.Check(p.Name, p.Version, p.Arch); err != nil {
		return fmt.Errorf("%w: %w", ErrPackage, err)
	}
	return d.Data(add)
}

const (
	parallel   = 4   // repositories that are asked at the same time
	maxSources = 200 // repositories in the configuration of one image
)

// open asks every configured repository and opens those that answer with a trusted signature. It
// asks each one separately: a repository that cannot be reached must not hide the others (an image
// may have its distribution's own sources in a network that has only a mirror). It records in e
// which repositories were searched and which were not.
func (f *debManager) open(
	ctx context.Context,
	arch string,
	e *UnavailableError,
) (*apt.Releases, error) {
	sources, err := apt.ReadSources(f.files)
	if err != nil {
		e.Err = err
		return nil, e
	}
	sources = split(sources, arch)
	if len(sources) == 0 || len(sources) > maxSources {
		e.Err = fmt.Errorf(
			"%d package repositories are configured for %s in /etc/apt, want 1 to %d",
			len(sources),
			arch,
			maxSources,
		)
		return nil, e
	}
	unchecked := f.conf.off("acquire::check-valid-until")
	o := apt.Options{Fetch: f.http, Root: f.files, Arch: arch, Names: isHeaders}
	f.Log.Info("looking for headers", "package", e.Package, "repositories", len(sources))
	for i := range sources {
		sources[i].NoValidUntil = sources[i].NoValidUntil || unchecked
	}
	open := func(s apt.Source) error {
		single := o
		single.Sources = []apt.Source{s}
		_, err := apt.OpenReleases(ctx, single)
		return err
	}
	o.Sources, err = usable(ctx, f.Log, e, sources, open, describe)
	if err != nil {
		return nil, err
	}
	if len(o.Sources) == 0 {
		e.Err = errors.New("none of them can be used")
		return nil, e
	}
	// from the store: the servers are only asked whether that is current
	releases, err := apt.OpenReleases(ctx, o)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	return releases, nil
}

// split returns a source for every URI and suite, without those for other architectures.
func split(sources []apt.Source, arch string) []apt.Source {
	var out []apt.Source
	for _, s := range sources {
		if len(s.Architectures) > 0 && !slices.Contains(s.Architectures, arch) {
			continue
		}
		for _, uri := range s.URIs {
			for _, suite := range s.Suites {
				single := s
				single.URIs = []string{uri}
				single.Suites = []string{suite}
				out = append(out, single)
			}
		}
	}
	return out
}

// describe returns a source for people, without its login.
func describe(s apt.Source) string {
	uri := s.URIs[0]
	if u, err := url.Parse(uri); err == nil && u.User != nil {
		u.User = nil
		uri = u.String()
	}
	return strings.Join(append([]string{uri, s.Suites[0]}, s.Components...), " ")
}
