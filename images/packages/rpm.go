package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
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

func (rpmManager) open(ctx context.Context, env Env, s Sources, tree *rootfs.Tree) (Repositories, error) {
	base, err := readRPMBase(tree, s.Arch)
	if err != nil {
		return nil, err
	}
	options, err := rpmOptions(env, s, base, tree)
	if err != nil {
		return nil, err
	}
	releases, err := rpm.OpenReleases(ctx, options)
	if err != nil {
		return nil, err
	}
	return rpmRepositories{releases, base, options.Mirror}, nil
}

// rpmBase is the state of the packages of a base.
type rpmBase struct {
	installed []rpmfile.Metadata
	keys      [][]byte // of its database, armoured
	vars      repoconf.Vars
	arch      string // rpm's name
}

func readRPMBase(tree *rootfs.Tree, arch string) (b rpmBase, err error) {
	a, ok := distros.LookupArch(arch)
	if !ok {
		return b, fmt.Errorf("there are no rpm packages for architecture %q", arch)
	}
	b.arch = a.Kernel
	db, err := rpmdb.Read(tree.OpenFS())
	if errors.Is(err, fs.ErrNotExist) { // packages could not be recorded as installed, nor anything be known of those it has
		return b, fmt.Errorf("%w: %w; give a base that was installed with rpm", ErrBase, err)
	}
	if err == nil {
		b.keys = db.Keys()
		b.installed, err = db.Metadata()
	}
	if err != nil {
		return b, fmt.Errorf("the base's rpm database: %w", err)
	}
	b.vars, err = repoconf.ReadVars(tree.OpenFS(), b.installed, b.arch)
	return b, err
}

// rpmOptions is the configuration of the base with what matrix and command line add. A subscription of this
// machine counts as well, as it does in containers of subscribed hosts.
func rpmOptions(env Env, s Sources, base rpmBase, tree *rootfs.Tree) (options rpm.Options, err error) {
	mirror, err := distros.ParseMirror(s.Mirror)
	if err != nil {
		return options, err
	}
	options = rpm.Options{
		Fetch: env.Fetch, Root: tree.OpenFS(), Machine: env.Machine, Arch: base.arch, Vars: base.vars, Keyrings: base.keys,
		AllowExpired: s.AllowExpired, AllowRollback: env.AllowRollback, Remember: filepath.Join(env.Store.Dir(), "revisions"),
		Mirror: mirror,
	}
	options.Sources, err = rpmSources(options, s)
	return options, err
}

// rpmSources are the repositories of the base, those of a subscription, those that are switched off but have
// the headers of older kernels that are asked for, and those of the matrix.
func rpmSources(options rpm.Options, of Sources) (sources []repoconf.Source, err error) {
	if !of.OnlyThese {
		if sources, err = repoconf.ReadSources(options.Root, options.Vars); err != nil {
			return nil, fmt.Errorf("repositories of the base: %w", err)
		}
		if options.Machine != nil {
			if sources, err = repoconf.WithSubscription(sources, options.Root, options.Machine, options.Vars); err != nil {
				return nil, fmt.Errorf("subscription of this machine: %w", err)
			}
		}
		older, err := olderKernels(options, of)
		if err != nil {
			return nil, err
		}
		sources = append(slices.DeleteFunc(sources, func(s repoconf.Source) bool {
			return slices.ContainsFunc(older, func(o repoconf.Source) bool { return o.ID == s.ID })
		}), older...)
	}
	for i, rep := range of.Repositories {
		s := repoconf.Source{Origin: "matrix", ID: fmt.Sprintf("matrix-%d", i+1), Key: rep.Key, GPGKeys: rep.GPGKeys, GPGCheck: true}
		for _, u := range rep.BaseURLs {
			s.BaseURLs = append(s.BaseURLs, options.Vars.Expand(u))
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// olderKernels are the repositories with the headers of kernels to compile for that the others no longer
// have: those that the base has switched off, and those of a subscription. RHEL's have one address for each
// minor version: the kernel's.
func olderKernels(options rpm.Options, of Sources) (out []repoconf.Source, err error) {
	system, ok := of.Distro.(distros.RPM)
	if !ok {
		return nil, nil
	}
	for _, release := range of.Kernels {
		vars := maps.Clone(options.Vars)
		if versions := system.ReleaseVers(release); len(versions) > 0 {
			vars["releasever"] = versions[0]
		}
		ids := system.ExtraRepositories(release, of.Arch)
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
				return slices.Equal(o.BaseURLs, s.BaseURLs) && o.MirrorList == s.MirrorList && o.Metalink == s.Metalink
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
