package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/rootfs"
)

// rpmManager manages the packages of Red Hat, SUSE and the systems that follow them.
type rpmManager struct{}

func (rpmManager) open(
	ctx context.Context,
	env Env,
	s Sources,
	tree *rootfs.Tree,
) (Repositories, error) {
	installed, options, err := readRPMBase(env, s, tree)
	if err != nil {
		return nil, err
	}
	releases, err := rpm.OpenReleases(ctx, options)
	return &rpmRepositories{
		Releases:  releases,
		distro:    s.Distro,
		installed: installed,
		mirror:    options.Mirror,
	}, err
}

// readRPMBase returns the packages of a base, and its configuration with what matrix and command
// line add. A subscription of this machine counts as well, as it does in containers of subscribed
// hosts.
func readRPMBase(
	env Env,
	s Sources,
	tree *rootfs.Tree,
) (installed []rpmfile.Metadata, o rpm.Options, err error) {
	arch, ok := distros.LookupArch(s.Arch)
	if !ok {
		return nil, o, fmt.Errorf("there are no rpm packages for architecture %q", s.Arch)
	}
	o = rpm.Options{
		Fetch: env.Fetch, Root: tree.OpenFS(), Machine: env.Machine, Arch: arch.Kernel, Modules: rpm.ParseModules,
		AllowExpired: s.AllowExpired, AllowRollback: env.AllowRollback,
	}
	db, err := rpmdb.Read(o.Root)
	// packages could not be recorded as installed, nor anything be known of those it has
	if errors.Is(err, fs.ErrNotExist) {
		return nil, o, fmt.Errorf("%w: %w; give a base that was installed with rpm", ErrBase, err)
	}
	if err != nil {
		return nil, o, fmt.Errorf("the base's rpm database: %w", err)
	}
	installed, err = db.Metadata()
	if err != nil {
		return nil, o, fmt.Errorf("the base's rpm database: %w", err)
	}
	o.Keyrings = db.Keys()
	o.Vars, err = repoconf.ReadVars(o.Root, installed, o.Arch)
	if err != nil {
		return nil, o, err
	}
	o.Mirror, err = distros.ParseMirror(s.Mirror)
	if err != nil {
		return nil, o, err
	}
	o.Sources, err = rpmSources(o, s)
	return installed, o, err
}

// rpmSources are the repositories of the base, those of a subscription, those that are switched off
// but have the headers of older kernels that are asked for, and those of the matrix.
func rpmSources(options rpm.Options, of Sources) (sources []repoconf.Source, err error) {
	if !of.OnlyThese {
		sources, err = repoconf.ReadSources(options.Root, options.Vars)
		if err != nil {
			return nil, fmt.Errorf("repositories of the base: %w", err)
		}
		if options.Machine != nil {
			sources, err = repoconf.WithSubscription(sources, options.Root, options.Machine, options.Vars)
			if err != nil {
				return nil, fmt.Errorf("subscription of this machine: %w", err)
			}
		}
		older, err := olderKernels(options, of)
		if err != nil {
			return nil, err
		}
		isOlder := func(s repoconf.Source) bool {
			return slices.ContainsFunc(older, func(o repoconf.Source) bool { return o.ID == s.ID })
		}
		sources = append(slices.DeleteFunc(sources, isOlder), older...)
	}
	for i, rep := range of.Repositories {
		s := repoconf.Source{
			Origin:   "matrix",
			ID:       fmt.Sprintf("matrix-%d", i+1),
			Key:      rep.Key,
			GPGKeys:  rep.GPGKeys,
			GPGCheck: true,
		}
		for _, u := range rep.BaseURLs {
			s.BaseURLs = append(s.BaseURLs, options.Vars.Expand(u))
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// olderKernels are the repositories with the headers of kernels to compile for that the others no
// longer have, and with signed modules for them: those that the base has switched off, and those of
// a subscription. RHEL's have one address for each minor version: the kernel's.
func olderKernels(options rpm.Options, of Sources) (out []repoconf.Source, err error) {
	system, ok := of.Distro.(distros.RPM)
	if !ok {
		return nil, nil
	}
	signer, signs := distros.SigningModules(of.Distro)
	for _, release := range of.Kernels {
		vars := maps.Clone(options.Vars)
		if versions := system.ReleaseVers(release); len(versions) > 0 {
			vars["releasever"] = versions[0]
		}
		ids := system.ExtraRepositories(release, of.Arch)
		if of.Signed && signs {
			ids = append(ids, signer.SignedModulesRepository(of.Arch))
		}
		found, err := repoconf.ReadDisabled(options.Root, vars, ids...)
		if err != nil {
			return nil, fmt.Errorf("repositories of the base: %w", err)
		}
		subscribed, err := repoconf.ReadSubscribed(options.Root, options.Machine, vars, ids...)
		if err != nil {
			return nil, fmt.Errorf("subscription of this machine: %w", err)
		}
		for _, s := range append(found, subscribed...) {
			s.SkipUnavailable = true // a mirror need not have them
			same := func(o repoconf.Source) bool {
				return slices.Equal(o.BaseURLs, s.BaseURLs) && o.MirrorList == s.MirrorList &&
					o.Metalink == s.Metalink
			}
			if slices.ContainsFunc(out, same) {
				continue
			}
			if slices.ContainsFunc(out, func(o repoconf.Source) bool { return o.ID == s.ID }) {
				s.ID += "-" + vars["releasever"] // that of another minor version
			}
			out = append(out, s)
		}
	}
	return out, nil
}
