package rpm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Upper bounds for unpacked lists.
const (
	maxPrimary   = 1 << 30 // bytes; Fedora's has 180 MB
	maxFilelists = 4 << 30 // bytes; Fedora's has 800 MB
	maxModules   = 64 << 20
)

// loaded is the content of the lists of one repository.
type loaded struct {
	packages []*Package
	modules  []Module
	notes    []string
}

// Load fetches, verifies and reads the lists of packages and modules. If their content differs from
// repomd.xml, the error is distros.ErrIndex. Only LeaveOut can leave out a repository that is open:
// Digest, the key of cached plans, counts it.
func (r *Releases) Load(ctx context.Context) (*Index, error) {
	found := make([]loaded, len(r.repos))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, repo := range r.repos {
		g.Go(func() error {
			content, err := repo.load(gctx, r.options)
			if err == nil {
				found[i] = content
				return nil
			}
			repo.err = fmt.Errorf("package repository %s: %w", repo.name(), err)
			leaveOut := r.options.LeaveOut
			if leaveOut != nil && gctx.Err() == nil && leaveOut(err) {
				return nil
			}
			return repo.err
		})
	}
	err := g.Wait()
	if err != nil {
		return nil, err
	}
	r.dropFailed()
	var packages []*Package
	var modules []Module
	notes := slices.Clone(r.notes)
	for _, f := range found {
		notes = append(notes, f.notes...)
		packages = append(packages, f.packages...)
		modules = append(modules, f.modules...)
	}
	state, err := r.options.moduleState()
	if err != nil {
		return nil, err
	}
	notes = append(notes, hideByModules(packages, modules, state)...)
	x := NewIndex(r.options.Arch, packages)
	x.repos = r.repos
	x.notes = notes
	return x, nil
}

func (r *repo) load(ctx context.Context, o Options) (l loaded, err error) {
	b := newBuilder(r, o)
	if err := r.read(ctx, "primary", r.md.Lists["primary"], maxPrimary, b.readPrimary); err != nil {
		return l, err
	}
	l.packages = b.packages
	if b.unusable > 0 {
		l.notes = append(
			l.notes,
			fmt.Sprintf("repository %s: %d of %d packages cannot be used, the last is %s",
				r.name(), b.unusable, len(b.packages), b.fault),
		)
	}
	if list, ok := r.md.Lists["modules"]; ok && o.Modules != nil {
		err = r.read(ctx, "modules", list, maxModules, func(in io.Reader) (err error) {
			l.modules, err = o.Modules(in)
			return err
		})
	}
	return l, err
}

// read fetches and verifies a list and passes its unpacked content to the function read.
func (r *repo) read(
	ctx context.Context,
	name string,
	l listFile,
	limit int64,
	read func(io.Reader) error,
) error {
	// repomd.xml may be hostile: its sizes must not fill the disk
	if size := max(l.Sum.Size, l.Unpacked); size > limit {
		return distros.BadIndex(
			"list %s: it has %d bytes, more than the %d allowed",
			name,
			size,
			limit,
		)
	}
	file, err := r.fetch(ctx, l)
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	err = fetch.Pinned(ctx, file, l.Sum, func(in io.Reader) error {
		return compression.Unpack(in, cmp.Or(l.Unpacked, limit), read)
	})
	if err != nil && ctx.Err() == nil {
		err = distros.BadIndex("%w", err)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	return nil
}

// fetch downloads a list from the folder that served repomd.xml, or from another mirror that has
// the same file.
func (r *repo) fetch(ctx context.Context, l listFile) (file string, err error) {
	folders := append(
		[]string{r.base},
		slices.DeleteFunc(slices.Clone(r.folders), func(f string) bool { return f == r.base })...)
	var failures []error
	var previous string
	for _, folder := range folders[:min(len(folders), tryMirrors)] {
		url, err := joinURL(folder, l.Base, l.Href)
		if err != nil {
			return "", distros.BadIndex("location %.80q: %w", l.Href, err)
		}
		if url == previous {
			break // the location does not depend on the mirror
		}
		previous = url
		l.Sum.URL = url
		file, _, err = r.client.Get(ctx, l.Sum, nil)
		var lie *fetch.MismatchError
		switch {
		case err == nil:
			return file, nil
		case ctx.Err() != nil:
			return "", err
		case errors.As(err, &lie):
			err = fmt.Errorf(
				"%w (a mirror in the middle of an update? then try again in some minutes): %w",
				distros.ErrIndex,
				err,
			)
		case !errors.Is(err, fetch.ErrUnreachable) && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		failures = append(failures, err)
	}
	return "", errors.Join(failures...)
}

// Digest returns 64 hex digits that identify the input of the resolver: the repomd.xml of all
// repositories in order, their locations (packages have addresses; it makes no difference which
// mirror of a list has answered), and the options and files of the base that count. It is a key for
// cached plans.
func (r *Releases) Digest() string {
	type line struct {
		ID, Repomd                     string
		Priority, Cost                 int
		Exclude, Include, Keys, Places []string
		Hotfixes                       bool
	}
	state := struct {
		Format  int
		Arch    string
		Modules moduleState
		Repos   []line
	}{3, r.options.Arch, moduleState{}, nil}
	state.Modules, _ = r.options.moduleState() //nolint:errcheck // Load returns the error
	for _, repo := range r.repos {
		s := repo.source
		sources := slices.Concat(s.BaseURLs, []string{s.MirrorList, s.Metalink})
		state.Repos = append(
			state.Repos,
			line{
				s.ID,
				repo.digest,
				s.Priority,
				s.Cost,
				s.Exclude,
				s.Include,
				repo.keys,
				sources,
				s.ModuleHotfixes,
			},
		)
	}
	data, err := json.Marshal(state)
	if err != nil { // cannot happen with strings and numbers; a constant digest would be wrong
		data = fmt.Append(nil, state)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
