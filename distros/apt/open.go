// Package apt reads Debian and Ubuntu package repositories without apt: the sources that a base
// image configures, their signed Release files, and their Packages indexes. From these it computes
// the set of packages to add so that a request is met.
//
// Trust has one direction: a key of the base signs a Release file, the Release file has the sha256
// of each index, an index has the sha256 of each package. The package parses nothing before it has
// checked the digest or signature, and does not accept MD5 or SHA-1 as digests.
//
// It does not download or unpack packages, run their scripts, remove anything, use Recommends, or
// read preferences (pins). It resolves without backtracking, like apt's classic resolver: each
// choice follows fixed preferences, and a dead end is an error with the chain that led to it, never
// a surprising second-best set.
package apt

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/redact"
)

const (
	parallel        = 4   // repositories that are fetched or parsed at the same time
	maxRepositories = 200 // of one configuration
)

// Options says which repositories to open and which keys to trust.
type Options struct {
	Fetch        *fetch.Client // mandatory
	Root         fs.FS         // the base's root file system, with its keyrings; mandatory
	Sources      []Source      // those of ReadSources, for example
	Arch         string        // Debian's name: "amd64", "arm64", "i386"; mandatory
	Components   []string      // added to each source that has them; an error if none has
	AllowExpired bool          // accept Release files past their Valid-Until, and expired keys
	// AllowRollback accepts a Release file that is older than one seen before.
	AllowRollback bool
	Now           time.Time // zero: now
	// Names chooses packages by their names; nil: all. For a program that looks for a few of tens of
	// thousands, and has little memory.
	Names func(name string) bool
	// LeaveOut reports whether a repository that cannot be opened, or a component of it whose index
	// cannot be read, is left out; nil: that is an error.
	LeaveOut func(error) bool
}

// Releases are repositories whose Release files were fetched and verified, but not yet their
// indexes.
type Releases struct {
	options Options
	repos   []*repo
	leftOut []error
	notes   []string
}

// repo is one suite of one archive.
type repo struct {
	source     Source
	base       string // URI without trailing slash; the file names of packages are relative to it
	suite      string
	dir        string // URL of the folder with the Release file
	flat       bool
	components []string
	rel        *release
	digest     string   // sha256 of the signed text
	notes      []string // what a user should know of the Release file
	err        error    // why it is left out
}

// name returns the URI for messages, without credentials.
func (r *repo) name() string { return redact.URL(r.base) + " " + r.suite }

// OpenReleases fetches and verifies the Release file of every repository. This is cheap, so a
// caller can compare their Digest before it loads the indexes. Errors: distros.ErrSources,
// pgp.ErrSignature, pgp.ErrExpired, distros.ErrIndex, and those of fetch.
func OpenReleases(ctx context.Context, o Options) (*Releases, error) {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	r := &Releases{options: o}
	if err := r.plan(); err != nil {
		return nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, repo := range r.repos {
		g.Go(func() error {
			err := repo.open(gctx, o)
			if err == nil {
				return nil
			}
			repo.err = fmt.Errorf("package repository %s: %w", repo.name(), err)
			return o.unlessLeftOut(gctx, repo.err)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r.repos = slices.DeleteFunc(r.repos, func(repo *repo) bool {
		if repo.err != nil {
			r.leftOut = append(r.leftOut, repo.err)
		}
		return repo.err != nil
	})
	return r, r.chooseComponents()
}

// unlessLeftOut returns err, and nil if what it is about is left out.
func (o *Options) unlessLeftOut(ctx context.Context, err error) error {
	if o.LeaveOut == nil || ctx.Err() != nil || !o.LeaveOut(err) {
		return err
	}
	return nil
}

// leaveOut removes a component from a repository, and a repository that has no other one.
func (r *Releases) leaveOut(from *repo, component string, err error) {
	r.leftOut = append(r.leftOut, err)
	isIt := func(name string) bool { return name == component }
	from.components = slices.DeleteFunc(slices.Clone(from.components), isIt)
	if len(from.components) == 0 {
		r.repos = slices.DeleteFunc(r.repos, func(repo *repo) bool { return repo == from })
	}
}

// Opened returns the repositories for messages, "URI suite component ...", in the order of the
// sources.
func (r *Releases) Opened() []string {
	var all []string
	for _, repo := range r.repos {
		all = append(all, strings.Join(append([]string{repo.name()}, repo.components...), " "))
	}
	return all
}

// LeftOut returns why repositories and components were left out.
func (r *Releases) LeftOut() []error { return r.leftOut }

// plan converts the sources into repositories.
func (r *Releases) plan() error {
	o := r.options
	for _, s := range o.Sources {
		if err := s.check(); err != nil {
			return err
		}
		if len(s.Architectures) > 0 && !slices.Contains(s.Architectures, o.Arch) {
			continue
		}
		for _, uri := range s.URIs {
			for _, suite := range s.Suites {
				uri := strings.TrimRight(strings.ReplaceAll(uri, "$(ARCH)", o.Arch), "/")
				suite := strings.ReplaceAll(suite, "$(ARCH)", o.Arch)
				repo := &repo{
					source:     s,
					base:       uri,
					suite:      suite,
					flat:       strings.HasSuffix(suite, "/"),
					components: slices.Clone(s.Components),
				}
				repo.dir = uri + "/dists/" + suite
				if repo.flat {
					repo.dir = strings.TrimRight(
						uri+"/"+strings.TrimPrefix(strings.TrimPrefix(suite, "./"), "/"),
						"/",
					)
				}
				r.repos = append(r.repos, repo)
			}
		}
	}
	if len(r.repos) == 0 {
		return distros.BadSources(
			"open package repositories: none is configured for architecture %s",
			o.Arch,
		)
	}
	if len(r.repos) > maxRepositories {
		return distros.BadSources(
			"open package repositories: %d are configured, more than the %d allowed",
			len(r.repos),
			maxRepositories,
		)
	}
	return nil
}

// chooseComponents adds the components of the options to the repositories that have them.
func (r *Releases) chooseComponents() error {
	for _, c := range r.options.Components {
		var names, have []string
		found := false
		for _, repo := range r.repos {
			if repo.flat {
				continue
			}
			names = append(names, repo.name())
			have = append(have, repo.rel.components...)
			if !slices.Contains(repo.rel.components, c) {
				continue
			}
			found = true
			if !slices.Contains(repo.components, c) {
				repo.components = append(repo.components, c)
			}
		}
		if !found {
			slices.Sort(have)
			return noComponent(c, strings.Join(names, ", "), slices.Compact(have))
		}
	}
	return nil
}

// noComponent says that repositories do not have a component. where is URI and suite.
func noComponent(component, where string, have []string) error {
	return fmt.Errorf(
		"component %q does not exist in %s; it has %s",
		component,
		where,
		strings.Join(have, ", "),
	)
}
