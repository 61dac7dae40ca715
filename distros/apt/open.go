package apt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/fetch"
)

const parallel = 4 // repositories fetched or parsed at once

// Options says which repositories to open and whom to trust.
type Options struct {
	Fetch        *fetch.Client // mandatory
	Root         fs.FS         // the base's root file system: sources (unless given below) and keyrings; may be nil if both are given
	Sources      []Source      // nil: those of Root
	Arch         string        // Debian's name: "amd64", "arm64", "i386"; mandatory
	Components   []string      // added to each source that offers them; it is an error if none does
	Mirror       string        // replaces URIs, see WithMirror; "": none
	Keyrings     [][]byte      // more trusted keys, for every source, binary or armoured
	AllowExpired bool          // accept Release files past their Valid-Until and keys that have expired
	Now          time.Time     // zero: now
}

// Releases are repositories whose Release files have been fetched and verified, and whose indexes have not yet.
type Releases struct {
	options Options
	repos   []*repo
	notes   []string
}

// repo is one suite of one archive.
type repo struct {
	source     Source
	base       string // URI without trailing slash; file names of packages are below it
	suite      string
	dir        string // URL of the folder with the Release file
	flat       bool
	components []string
	rel        *release
	digest     string // sha256 of the text that was signed
}

// name is for messages: without credentials.
func (r *repo) name() string {
	base := r.base
	if u, err := url.Parse(base); err == nil && u.User != nil {
		u.User = nil
		base = u.String()
	}
	return base + " " + r.suite
}

// Open is OpenReleases and Load in one.
func Open(ctx context.Context, o Options) (*Index, error) {
	r, err := OpenReleases(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Load(ctx)
}

// OpenReleases fetches and verifies the Release file of every repository, which is cheap, so that a caller can ask for
// their Digest before it loads the indexes. Errors: ErrSources, ErrSignature, ErrExpired, ErrIndex, *ComponentError, and
// those of fetch.
func OpenReleases(ctx context.Context, o Options) (*Releases, error) {
	if o.Fetch == nil || o.Arch == "" {
		return nil, fmt.Errorf("open package repositories: %w: a fetch client and an architecture are needed", ErrSources)
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	r := &Releases{options: o}
	if err := r.plan(); err != nil {
		return nil, err
	}
	keys := keyStore{o.Root, o.Keyrings}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, repo := range r.repos {
		g.Go(func() error {
			if err := repo.open(gctx, o, keys); err != nil {
				return fmt.Errorf("package repository %s: %w", repo.name(), err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, r.chooseComponents()
}

// plan turns the sources into repositories.
func (r *Releases) plan() (err error) {
	o := r.options
	sources := o.Sources
	if sources == nil && o.Root != nil {
		if sources, err = ReadSources(o.Root); err != nil {
			return err
		}
	}
	sources = slices.Clone(sources)
	for i := range sources {
		if err := sources[i].check(); err != nil {
			return err
		}
	}
	if sources, err = WithMirror(sources, o.Mirror); err != nil {
		return err
	}
	for _, s := range sources {
		if len(s.Architectures) > 0 && !slices.Contains(s.Architectures, o.Arch) {
			continue
		}
		for _, uri := range s.URIs {
			for _, suite := range s.Suites {
				uri := strings.TrimRight(strings.ReplaceAll(uri, "$(ARCH)", o.Arch), "/")
				suite := strings.ReplaceAll(suite, "$(ARCH)", o.Arch)
				repo := &repo{source: s, base: uri, suite: suite, flat: strings.HasSuffix(suite, "/"), components: slices.Clone(s.Components)}
				repo.dir = uri + "/dists/" + suite
				if repo.flat {
					repo.dir = strings.TrimRight(uri+"/"+strings.TrimPrefix(strings.TrimPrefix(suite, "./"), "/"), "/")
				}
				r.repos = append(r.repos, repo)
			}
		}
	}
	if len(r.repos) == 0 {
		return fmt.Errorf("open package repositories: %w: none is configured for architecture %s", ErrSources, o.Arch)
	}
	return nil
}

// open fetches, verifies and reads the Release file: InRelease, or Release with Release.gpg where that does not exist.
func (r *repo) open(ctx context.Context, o Options, keys keyStore) error {
	text, err := r.fetchRelease(ctx, o, keys)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	r.digest = hex.EncodeToString(sum[:])
	if r.rel, err = parseRelease(text); err != nil {
		return err
	}
	return r.rel.check(r.suite, o.Now, o.AllowExpired || r.source.NoValidUntil)
}

func (r *repo) fetchRelease(ctx context.Context, o Options, keys keyStore) ([]byte, error) {
	t := trust{now: o.Now, allowExpired: o.AllowExpired}
	var err error
	if t.keys, t.notes, err = keys.keysFor(r.source); err != nil {
		return nil, err
	}
	inline, err := o.Fetch.Latest(ctx, r.dir+"/InRelease", maxRelease)
	if err == nil {
		text, err := t.clearsigned(inline)
		if err != nil && (!r.source.Trusted || text == nil) {
			return nil, fmt.Errorf("InRelease: %w", err)
		}
		return text, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fetch.ErrOffline) {
		return nil, err
	}
	text, err2 := o.Fetch.Latest(ctx, r.dir+"/Release", maxRelease)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	if r.source.Trusted {
		return text, nil
	}
	sig, err := o.Fetch.Latest(ctx, r.dir+"/Release.gpg", 1<<20)
	if err != nil {
		return nil, err
	}
	if err := t.detached(text, sig); err != nil {
		return nil, fmt.Errorf("Release.gpg: %w", err)
	}
	return text, nil
}

// chooseComponents checks the components of each repository and adds those of the options where they exist.
func (r *Releases) chooseComponents() error {
	for _, repo := range r.repos {
		for _, c := range repo.components {
			if len(repo.rel.components) > 0 && !slices.Contains(repo.rel.components, c) {
				return &ComponentError{c, repo.name(), repo.rel.components}
			}
		}
	}
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
			return &ComponentError{c, strings.Join(names, ", "), slices.Compact(have)}
		}
	}
	return nil
}

// Digest identifies what resolving can depend on: the signed texts of all Release files, in order, and the options. It
// is a key for cached plans, 64 hex digits.
func (r *Releases) Digest() string {
	type line struct {
		Base, Suite, Release string
		Components           []string
	}
	state := struct {
		Format       int
		Arch         string
		AllowExpired bool
		Repos        []line
	}{1, r.options.Arch, r.options.AllowExpired, nil}
	for _, repo := range r.repos {
		state.Repos = append(state.Repos, line{repo.base, repo.suite, repo.digest, repo.components})
	}
	data, err := json.Marshal(state)
	if err != nil { // strings only: cannot happen, and a constant digest would be a lie
		data = fmt.Append(nil, state)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
