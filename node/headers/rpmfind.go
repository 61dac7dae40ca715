package headers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// find searches the repositories once for each possible value of $releasever for this kernel, the
// likeliest first: the repositories of the system's current minor version no longer have the
// kernels of an older one.
func (f *rpmManager) find(ctx context.Context, wants []string) (*plan, error) {
	e := &UnavailableError{Release: f.Release, Package: wants[0], Folder: rpmFolder}
	vars, err := repoconf.ReadVars(f.files, nil, f.arch)
	if err != nil {
		e.Err = err
		return nil, e
	}
	for _, version := range f.releaseVers(vars["releasever"]) {
		if version != "" {
			vars["releasever"] = version
		}
		p, err := f.search(ctx, vars, wants, e)
		if p != nil || err != nil {
			return p, err
		}
	}
	if len(e.Looked) == 0 && e.Err == nil {
		e.Err = errors.New("none of the package repositories can be used")
		if len(e.Failed) == 0 {
			e.Err = errors.New("no package repository is configured in the image")
		}
	}
	return nil, e
}

// releaseVers returns the values of $releasever to try. Values that an administrator set come
// first: DNF_RELEASEVER as in NVIDIA's images, or a file in etc/dnf/vars or etc/yum/vars with a
// value that the system itself does not have.
func (f *rpmManager) releaseVers(configured string) []string {
	_, major := f.distro.OSRelease()
	own := append(f.distro.ReleaseVers(f.Release), major)
	all := []string{f.Getenv("DNF_RELEASEVER")}
	if id, _ := f.distro.OSRelease(); !f.distro.Matches(id, configured) {
		all = append(all, configured)
	}
	all = append(append(all, own...), configured)
	var out []string
	for _, v := range all {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out
}

// search searches the repositories that these variables give and that were not searched before. It
// returns nil without an error when they do not have the package; then e has more details.
func (f *rpmManager) search(ctx context.Context, vars repoconf.Vars, wants []string, e *UnavailableError) (*plan, error) {
	sources, err := repoconf.ReadSources(f.files, vars)
	if err != nil {
		e.Err = err
		return nil, e
	}
	extra := f.distro.ExtraRepositories(f.Release, f.Arch)
	more, err := repoconf.ReadDisabled(f.files, vars, extra...)
	sources = append(sources, more...)
	if err != nil {
		e.Err = err
		return nil, e
	}
	sources = slices.DeleteFunc(sources, func(s repoconf.Source) bool {
		what := strings.Join(append(slices.Clone(s.BaseURLs), s.MirrorList, s.Metalink), " ")
		again := f.searched[what]
		f.searched[what] = true
		return again
	})
	if len(sources) == 0 {
		return nil, nil
	}
	if len(f.searched) > maxSources {
		e.Err = fmt.Errorf("more than %d package repositories are configured", maxSources)
		return nil, e
	}
	o := rpm.Options{Fetch: f.http, Root: f.files, Arch: f.arch, Vars: vars, Names: isRPMHeaders}
	f.Log.Info("looking for headers", "package", e.Package, "repositories", len(sources), "releasever", cmp.Or(vars["releasever"], "unknown"))
	open := func(s repoconf.Source) error {
		single := o
		single.Sources = []repoconf.Source{s}
		_, err := rpm.OpenReleases(ctx, single)
		return err
	}
	describe := func(s repoconf.Source) string { return s.ID + " (" + address(s) + ")" }
	o.Sources, err = usable(ctx, f.Log, e, sources, open, describe)
	if err != nil || len(o.Sources) == 0 {
		return nil, err
	}
	begin := time.Now()
	// from the store: the servers are only asked whether that is current
	releases, err := rpm.OpenReleases(ctx, o)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	err = f.trust(o)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	index, err := releases.Load(ctx)
	if err != nil {
		return nil, e.because(ctx, err)
	}
	f.clients = releases.Clients()
	f.read(index, begin)
	return f.plan(index, wants, e)
}

// address returns the address of a repository for people, without logins.
func address(s repoconf.Source) string {
	if len(s.BaseURLs) > 0 {
		return s.BaseURLs[0]
	}
	return cmp.Or(s.Metalink, s.MirrorList)
}
