package headers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
func (f *fetcher) deb(ctx context.Context) (manager, error) {
	c := f.readConf(ctx)
	transport, err := f.transport(c)
	if err != nil {
		return nil, err
	}
	return &debManager{fetcher: f, conf: c, http: f.newClient(transport)}, nil
}

// find finds the wanted packages by name, and the header packages that they depend on.
func (f *debManager) find(ctx context.Context, wants []string, e *UnavailableError) (plan, error) {
	index, err := f.load(ctx, e)
	if err != nil {
		return nil, err
	}
	libc, err := f.libc()
	if err != nil {
		return nil, err
	}
	return f.plan(index, libc, wants, e)
}

// load reads what the repositories have of headers.
func (f *debManager) load(ctx context.Context, e *UnavailableError) (*apt.Index, error) {
	sources, err := apt.ReadSources(f.files)
	if err != nil {
		return nil, err
	}
	unchecked := f.conf.off("acquire::check-valid-until")
	for i := range sources {
		sources[i].NoValidUntil = sources[i].NoValidUntil || unchecked
	}
	f.Log.Info("looking for headers", "package", e.Package)
	releases, err := apt.OpenReleases(ctx, apt.Options{
		Fetch:    f.http,
		Root:     f.files,
		Sources:  sources,
		Arch:     f.arch.Debian,
		Names:    isHeaders,
		LeaveOut: notLocal,
	})
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	index, err := releases.Load(ctx)
	if err != nil {
		return nil, err
	}
	f.searched(e, releases)
	if len(e.Looked) == 0 {
		return nil, errUnusable
	}
	f.read(index, begin)
	return index, nil
}

// libc returns the version of the image's C library; "" when the image has no list of its packages.
func (f *debManager) libc() (dpkg.Version, error) {
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
	p, _ := status.Find("libc6", f.arch.Debian)
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
	err = d.Check(p.Name, p.Version, p.Arch)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPackage, err)
	}
	return d.Data(add)
}
