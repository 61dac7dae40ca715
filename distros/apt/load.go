package apt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

// maxIndex bounds one unpacked index whose size is not in the Release file. Debian's largest is 55
// MB.
const maxIndex = 512 << 20

// endings lists the compressions of an index, the preferred first; bz2 is the slowest. For Debian's
// main (50 MB), gz has 12.1 MB and takes 0.35 s; xz has 8.8 MB and takes 1.0 s and 8 MB of memory.
// From 5 MB/s of network upwards gz is faster, and every build reads the index again.
var endings = []string{".zst", ".gz", ".xz", ".bz2", ""}

// job is one index to fetch and parse.
type job struct {
	repo      *repo
	component string
	path      string // below the repository's folder, without ending
}

// Load fetches, verifies and reads the Packages indexes. If content differs from the Release file,
// the error is distros.ErrIndex.
func (r *Releases) Load(ctx context.Context) (*Index, error) {
	x := &Index{releases: r}
	jobs, err := r.jobs(ctx)
	if err != nil {
		return nil, err
	}
	found := make([][]entry, len(jobs))
	failed := make([]error, len(jobs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, j := range jobs {
		g.Go(func() error {
			entries, err := j.load(gctx, r.options)
			if err == nil {
				found[i] = entries
				return nil
			}
			failed[i] = fmt.Errorf("package repository %s: index %s: %w", j.repo.name(), j.path, err)
			return r.options.unlessLeftOut(gctx, failed[i])
		})
	}
	err = g.Wait()
	if err != nil {
		return nil, err
	}
	for i, err := range failed {
		if err != nil {
			r.leaveOut(jobs[i].repo, jobs[i].component, err)
		}
	}
	x.build(found)
	return x, nil
}

// jobs returns the indexes to read, each once. A component of a repository that lacks the
// architecture is skipped with a note, as apt does; one that claims to have it and lists no index
// is an error. What is listed counts, whatever the Release file says of components and
// architectures.
func (r *Releases) jobs(ctx context.Context) ([]job, error) {
	var out []job
	r.notes = nil
	seen := map[string]bool{}
	add := func(j job) {
		if key := j.repo.dir + "/" + j.path; !seen[key] {
			seen[key] = true
			out = append(out, j)
		}
	}
	for _, repo := range slices.Clone(r.repos) {
		r.notes = append(r.notes, repo.notes...)
		if repo.flat {
			add(job{repo, "", "Packages"})
			continue
		}
		for _, c := range repo.components {
			listed := false
			for _, arch := range []string{r.options.Arch, "all"} {
				j := job{repo, c, path.Join(c, "binary-"+arch, "Packages")}
				if len(j.choices()) == 0 ||
					arch == "all" && !slices.Contains(repo.rel.architectures, "all") {
					continue
				}
				listed = true
				add(j)
			}
			if listed {
				continue
			}
			note, err := repo.lacks(c, r.options.Arch)
			if err == nil {
				r.notes = append(r.notes, note)
				continue
			}
			if r.options.unlessLeftOut(ctx, err) != nil {
				return nil, err
			}
			r.leaveOut(repo, c, err)
		}
	}
	return out, nil
}

// lacks returns what a user should know where a Release file lists no index of a component for an
// architecture.
func (r *repo) lacks(component, arch string) (note string, err error) {
	has := r.rel.components
	if len(has) > 0 && !slices.Contains(has, component) {
		return "", noComponent(component, r.name(), has)
	}
	archs := r.rel.architectures
	if len(archs) == 0 || slices.Contains(archs, arch) || slices.Contains(archs, "all") {
		return "", distros.BadIndex(
			"package repository %s: its Release file lists no index of component %s for %s",
			r.name(),
			component,
			arch,
		)
	}
	return fmt.Sprintf(
		"%s %s has nothing for %s, only for %s",
		r.name(),
		component,
		arch,
		strings.Join(archs, ", "),
	), nil
}

// choice is one form (compression) of an index.
type choice struct {
	ending string
	fetch.File
}

func (c choice) digest() string { return cmp.Or(c.SHA256, c.SHA512) }

func (j job) choices() []choice {
	var out []choice
	for _, e := range endings {
		if s, ok := j.repo.rel.indexes[j.path+e]; ok {
			out = append(out, choice{e, s})
		}
	}
	return out
}

func (j job) load(ctx context.Context, o Options) ([]entry, error) {
	choices := j.choices()
	if len(choices) == 0 {
		return nil, distros.BadIndex("the Release file does not list it")
	}
	// A form that is already in the store saves a download, whatever its compression.
	slices.SortStableFunc(choices, func(a, b choice) int {
		return btoi(o.Fetch.Store.Has(b.digest())) - btoi(o.Fetch.Store.Has(a.digest()))
	})
	plain, known := j.repo.rel.indexes[j.path]
	if !known {
		plain.Size = maxIndex
	}
	if plain.Size > maxIndex {
		return nil, distros.BadIndex(
			"it has %d bytes, more than the %d allowed",
			plain.Size,
			maxIndex,
		)
	}
	var file string
	var form fetch.File
	again := fetch.Retry{
		Attempts: 4,
		Backoff:  cmp.Or(o.Fetch.Backoff, time.Second),
		Final: func(err error) bool {
			return !errors.Is(err, distros.ErrIndex) && !errors.Is(err, fs.ErrNotExist)
		},
	}
	// A server behind the one that sent the Release file may be a little behind it.
	_, err := again.Do(ctx, func(ctx context.Context) (_ bool, err error) {
		file, form, err = j.fetch(ctx, o.Fetch, choices)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	var entries []entry
	err = fetch.Pinned(ctx, file, form, func(in io.Reader) error {
		return compression.Unpack(in, plain.Size, func(in io.Reader) (err error) {
			entries, err = j.read(in, o)
			return err
		})
	})
	if err != nil {
		return nil, distros.BadIndex("%w", err)
	}
	return entries, nil
}

// fetch returns the first form that the server has. Release files list forms that do not exist
// (Debian's uncompressed ones), and mirrors may lack the by-hash folders.
func (j job) fetch(
	ctx context.Context,
	client *fetch.Client,
	choices []choice,
) (file string, form fetch.File, err error) {
	var missing []error
	for _, c := range choices {
		for _, url := range j.urls(c) {
			c.URL = url
			file, _, err := client.Get(ctx, c.File, nil)
			var mismatch *fetch.MismatchError
			switch {
			case err == nil:
				return file, c.File, nil
			case errors.As(err, &mismatch):
				return "", form, fmt.Errorf(
					"%w (a mirror in the middle of an update? then try again in some minutes): %w",
					distros.ErrIndex,
					err,
				)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fetch.ErrOffline):
				return "", form, err
			}
			missing = append(missing, err)
		}
	}
	return "", form, errors.Join(missing...)
}

func (j job) urls(c choice) []string {
	name := j.repo.dir + "/" + j.path + c.ending
	if !j.repo.rel.byHash || j.repo.source.NoByHash {
		return []string{name}
	}
	kind := "SHA256"
	if c.SHA256 == "" {
		kind = "SHA512"
	}
	return []string{
		j.repo.dir + "/" + path.Join(path.Dir(j.path), "by-hash", kind, c.digest()),
		name,
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

const maxEntries = 1 << 21 // packages of one index; Debian's main has 63000

// read parses an index.
func (j job) read(in io.Reader, o Options) (all []entry, err error) {
	for p, err := range dpkg.ReadParagraphs(in) {
		if err != nil {
			return nil, err
		}
		name := p.Get("Package")
		if name == "" {
			return nil, fmt.Errorf("a package without a name: %.80q", p)
		}
		if o.Names != nil && !o.Names(name) {
			continue
		}
		if len(all) == maxEntries {
			return nil, fmt.Errorf("more than %d packages", maxEntries)
		}
		e := newEntry(p, j, o.Arch)
		if e.arch == o.Arch || e.arch == "all" {
			all = append(all, e)
		}
	}
	return all, nil
}

// newEntry keeps only the text of a paragraph: its parsed fields would take as much memory again. A
// package without an architecture is for that of the machine, as in apt.
func newEntry(p dpkg.Paragraph, j job, arch string) entry {
	e := entry{
		name:      p.Get("Package"),
		version:   p.Get("Version"),
		arch:      cmp.Or(p.Get("Architecture"), arch),
		provides:  p.Get("Provides"),
		raw:       p.String(),
		repo:      j.repo,
		component: j.component,
	}
	e.fault = e.check(p)
	return e
}
