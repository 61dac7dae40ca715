package rpm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/redact"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

const parallel = 4 // number of repositories that are fetched or parsed at once

// Options says which repositories to open and which keys to trust.
type Options struct {
	Fetch *fetch.Client // mandatory
	Root  fs.FS         // of the base, with its keys and modules; mandatory
	// The root of this machine, for certificates and for the files of a subscription that are
	// mounted. It may be nil.
	Machine fs.FS
	Sources []repoconf.Source // those of repoconf.ReadSources, for example
	Arch    string            // mandatory, rpm's name: "x86_64", "aarch64"
	Vars    repoconf.Vars     // for mirror lists
	Mirror  distros.Mirror    // replaces URLs, see repoconf.WithMirror
	// ParseModules, so that streams of modules that are not active hide their packages. nil for a
	// program that looks for packages that no module has, such as kernel headers; it then has no
	// reader of YAML.
	Modules func(io.Reader) ([]Module, error)

	Keyrings      [][]byte  // additional trusted keys for every source, binary or armoured
	AllowExpired  bool      // accept signatures of keys that have expired
	AllowRollback bool      // accept an older index than one seen before
	Now           time.Time // zero: now
	// Names chooses packages by their names; nil: all. For a program that looks for a few of tens of
	// thousands, and has little memory.
	Names func(name string) bool
	// LeaveOut reports whether a repository that cannot be opened or read is left out; nil: that is an
	// error, except for sources with SkipUnavailable that cannot be opened.
	LeaveOut func(error) bool
}

// Releases are repositories whose repomd.xml has been fetched and verified. Their lists have not
// been fetched.
type Releases struct {
	options Options
	repos   []*repo
	leftOut []error
	notes   []string
	clients *Clients
}

// repo is one source that is open.
type repo struct {
	source   repoconf.Source
	identity string // of the repository, the same for every mirror
	mirrors  mirrors
	folders  []string
	base     string // the folder that served repomd.xml, without trailing slash
	client   *fetch.Client
	md       *repomd
	digest   string   // sha256 of repomd.xml
	keys     []string // one of which must sign each package
	notes    []string
	err      error // why it is left out
}

// sources returns the sources to use, checked and with the URLs of the mirror, and the identity of
// each repository by id, which does not depend on the mirror.
func (o *Options) sources() (sources []repoconf.Source, identities map[string]string, err error) {
	identities = map[string]string{}
	for _, s := range o.Sources {
		if _, ok := identities[s.ID]; ok {
			return nil, nil, distros.BadSources("%s: there is another source %s", s.Origin, s.ID)
		}
		identities[s.ID] = cmp.Or(
			s.Metalink,
			s.MirrorList,
			strings.Join(s.BaseURLs[:min(1, len(s.BaseURLs))], ""),
		)
	}
	sources, err = repoconf.WithMirror(slices.Clone(o.Sources), o.Mirror)
	if err != nil {
		return nil, nil, err
	}
	for i := range sources {
		sources[i].SeparateSecrets()
		if err := sources[i].Check(); err != nil {
			return nil, nil, err
		}
	}
	return sources, identities, nil
}

// OpenReleases fetches and verifies the repomd.xml of every repository. That is cheap, so a caller
// can ask for their Digest before it loads the lists. Errors: distros.ErrSources, pgp.ErrSignature,
// pgp.ErrExpired, distros.ErrIndex, ErrRollback, and those of fetch.
func OpenReleases(ctx context.Context, o Options) (*Releases, error) {
	if archs[o.Arch] == nil {
		return nil, distros.BadSources(
			"open package repositories: architecture %q is not known",
			o.Arch,
		)
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	sources, identities, err := o.sources()
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, distros.BadSources("open package repositories: none is configured and enabled")
	}
	r := &Releases{options: o, clients: &Clients{base: o.Fetch}}
	r.repos = make([]*repo, len(sources))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, s := range sources {
		r.repos[i] = &repo{source: s, identity: identities[s.ID], folders: s.BaseURLs}
		g.Go(func() error {
			repo := r.repos[i]
			err := repo.open(gctx, o)
			if err == nil {
				return nil
			}
			repo.err = fmt.Errorf("package repository %s: %w", repo.name(), err)
			if gctx.Err() == nil && o.leavesOut(s, err) {
				return nil
			}
			return repo.err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, r.settle()
}

// leavesOut reports whether a source that cannot be opened is left out.
func (o *Options) leavesOut(s repoconf.Source, err error) bool {
	if o.LeaveOut != nil {
		return o.LeaveOut(err)
	}
	return s.SkipUnavailable && errors.Is(err, fetch.ErrUnreachable)
}

// settle removes the repositories that are left out and makes the clients.
func (r *Releases) settle() error {
	r.dropFailed()
	for _, repo := range r.repos {
		for _, note := range repo.notes {
			r.notes = append(r.notes, fmt.Sprintf("repository %s: %s", repo.name(), note))
		}
		r.clients.own = append(r.clients.own, ownClient{repo.folders, repo.client, nil})
	}
	if r.options.LeaveOut != nil {
		return nil
	}
	for _, err := range r.leftOut {
		r.notes = append(r.notes, fmt.Sprintf("left out: %v", err))
	}
	if len(r.repos) == 0 {
		return fmt.Errorf(
			"open package repositories: %w: %s",
			fetch.ErrUnreachable,
			strings.Join(r.notes, "; "),
		)
	}
	return nil
}

// dropFailed removes the repositories with an error.
func (r *Releases) dropFailed() {
	r.repos = slices.DeleteFunc(r.repos, func(repo *repo) bool {
		if repo.err != nil {
			r.leftOut = append(r.leftOut, repo.err)
		}
		return repo.err != nil
	})
}

// Opened returns the repositories for messages, "id (URL)", in the order of the sources.
func (r *Releases) Opened() []string {
	var all []string
	for _, repo := range r.repos {
		all = append(all, repo.name())
	}
	return all
}

// LeftOut returns why repositories were left out.
func (r *Releases) LeftOut() []error { return r.leftOut }

// Clients returns the clients for the packages of these repositories and of their mirrors.
func (r *Releases) Clients() *Clients { return r.clients }

// name returns the repository's name for messages. A source's URL never holds a secret.
func (r *repo) name() string {
	return r.source.ID + " (" + redact.URL(cmp.Or(r.base, r.identity)) + ")"
}
