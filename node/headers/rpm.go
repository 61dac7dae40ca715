package headers

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const (
	rpmFolder  = "/etc/yum.repos.d" // in which more repositories can be mounted
	maxSources = 200                // repositories of one image, with every $releasever
)

// rpmManager implements manager for rpm packages and the repositories of yum, dnf and zypper. It
// does not look at the packages that the image has: that would need readers for rpm's databases,
// which the node's program does not use otherwise, and the header packages of these systems depend
// on no particular version of anything except each other.
type rpmManager struct {
	*fetcher
	distro  distros.RPM
	http    *fetch.Client
	clients *rpm.Clients    // of the repositories that had the packages
	keys    pgp.Ring        // for packages of an index that is not signed
	asked   map[string]bool // repositories by id and addresses, so that none is asked twice
}

// rpm returns the manager with its client. Proxies, certificates and logins of single repositories
// come from their configuration.
func (f *fetcher) rpm() (manager, error) {
	distro, ok := f.distro.(distros.RPM)
	if !ok {
		return nil, fmt.Errorf("%s has no rpm packages", f.distro.ID())
	}
	pool, err := f.authorities(nil)
	if err != nil {
		return nil, err
	}
	env := environment(f.Getenv).ProxyFunc()
	proxy := func(r *http.Request) (*url.URL, error) { return env(r.URL) }
	return &rpmManager{
		fetcher: f,
		distro:  distro,
		asked:   map[string]bool{},
		http:    f.newClient(plainTransport(pool, proxy)),
	}, nil
}

// find searches the repositories once for each possible value of $releasever for this kernel, the
// likeliest first: the repositories of the system's current minor version no longer have the
// kernels of an older one.
func (f *rpmManager) find(ctx context.Context, wants []string, e *UnavailableError) (plan, error) {
	e.Folder = rpmFolder
	vars, err := repoconf.ReadVars(f.files, nil, f.arch.Kernel)
	if err != nil {
		return nil, err
	}
	for _, version := range f.releaseVers(vars["releasever"]) {
		if version != "" {
			vars["releasever"] = version
		}
		index, err := f.load(ctx, vars, e)
		if err != nil {
			return nil, err
		}
		if index == nil {
			continue
		}
		p, err := f.plan(index, wants, e)
		if p != nil || err != nil {
			return p, err
		}
	}
	switch {
	case len(e.Looked) > 0:
		return nil, nil
	case len(e.Failed) > 0:
		return nil, errUnusable
	}
	return nil, errors.New("no package repository is configured in the image")
}

// releaseVers returns the values of $releasever to try. Values that an administrator set come
// first: DNF_RELEASEVER as in NVIDIA's images, or a file in etc/dnf/vars or etc/yum/vars with a
// value that the system itself does not have.
func (f *rpmManager) releaseVers(configured string) []string {
	id, major := f.distro.OSRelease()
	all := []string{f.Getenv("DNF_RELEASEVER")}
	if !f.distro.Matches(id, configured) {
		all = append(all, configured)
	}
	all = slices.Concat(all, f.distro.ReleaseVers(f.Release), []string{major, configured})
	var out []string
	for _, v := range all {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// load reads what the repositories that these variables give, and that were not asked before, have
// of headers; nil if there is none that can be used.
func (f *rpmManager) load(ctx context.Context, vars repoconf.Vars, e *UnavailableError) (*rpm.Index, error) {
	sources, err := f.sources(vars, e)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	f.Log.Info(
		"looking for headers",
		"package", e.Package,
		"repositories", len(sources),
		"releasever", cmp.Or(vars["releasever"], "unknown"),
	)
	o := rpm.Options{
		Fetch:    f.http,
		Root:     f.files,
		Arch:     f.arch.Kernel,
		Vars:     vars,
		Sources:  sources,
		Names:    isRPMHeaders,
		LeaveOut: notLocal,
	}
	begin := time.Now()
	releases, err := rpm.OpenReleases(ctx, o)
	if err != nil {
		return nil, err
	}
	index, err := releases.Load(ctx)
	if err != nil {
		return nil, err
	}
	f.searched(e, releases)
	if len(releases.Opened()) == 0 {
		return nil, nil
	}
	f.keys, err = o.Keyring()
	if err != nil {
		return nil, err
	}
	slices.Sort(f.keys.Notes)
	for _, note := range slices.Compact(f.keys.Notes) {
		f.Log.Warn("a key is not used", "reason", note)
	}
	f.clients = releases.Clients()
	f.read(index, begin)
	return index, nil
}

// sources reads the repositories that were not asked before. It records in e those that are
// configured wrongly.
func (f *rpmManager) sources(vars repoconf.Vars, e *UnavailableError) ([]repoconf.Source, error) {
	sources, err := repoconf.ReadSources(f.files, vars)
	if err != nil {
		return nil, err
	}
	extra := f.distro.ExtraRepositories(f.Release, f.Arch)
	more, err := repoconf.ReadDisabled(f.files, vars, extra...)
	if err != nil {
		return nil, err
	}
	sources = slices.DeleteFunc(append(sources, more...), func(s repoconf.Source) bool {
		places := strings.Join(append([]string{s.ID, s.MirrorList, s.Metalink}, s.BaseURLs...), " ")
		if f.asked[places] {
			return true
		}
		f.asked[places] = true
		err := s.Check()
		if err != nil {
			f.leftOut(e, err)
		}
		return err != nil
	})
	if len(f.asked) > maxSources {
		return nil, fmt.Errorf("more than %d package repositories are configured", maxSources)
	}
	return sources, nil
}

func (f *rpmManager) client(url string) (*fetch.Client, error) { return f.clients.For(url) }

// members checks the package's own signature where the repository's index is not signed.
func (f *rpmManager) members(
	in io.Reader,
	p distros.Package,
	add func(h *tar.Header, r io.Reader) error,
) error {
	file, err := rpmfile.Open(in)
	if err != nil {
		return err
	}
	m, err := file.Header.Metadata()
	if err != nil {
		return err
	}
	// An unsigned index may present an old package with a valid signature as a new one.
	want, err := rpmfile.ParseEVR(p.Version)
	if err != nil || m.Name != p.Name || m.Arch != p.Arch || rpmfile.Compare(m.EVR, want) != 0 {
		return fmt.Errorf(
			"%w: it calls itself %.100q %.100q of %.20q",
			ErrPackage,
			m.Name,
			m.EVR,
			m.Arch,
		)
	}
	if len(p.Keys) > 0 {
		_, err = file.Verify(f.keys, p.Keys)
		if err != nil {
			return err
		}
	}
	return file.Payload(add)
}
