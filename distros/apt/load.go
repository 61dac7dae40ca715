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

// maxIndex bounds one unpacked index whose size is not in the Release file. Debian's largest is 55 MB.
const maxIndex = 512 << 20

// endings lists the compressions of an index, the preferred first. For Debian's main (50 MB), gz has 12.1 MB
// and takes 0.35 s; xz has 8.8 MB and takes 1.0 s and 8 MB of memory. From 5 MB/s of network upwards gz is
// faster, and every build reads the index again.
var endings = []string{".zst", ".gz", ".xz", ""}

// job is one index to fetch and parse.
type job struct {
	repo      *repo
	component string
	path      string // below the repository's folder, without ending
}

// Load fetches, verifies and reads the Packages indexes. If content differs from the Release file, the error
// is distros.ErrIndex.
func (r *Releases) Load(ctx context.Context) (*Index, error) {
	x := &Index{releases: r}
	jobs, err := r.jobs()
	if err != nil {
		return nil, err
	}
	found := make([][]entry, len(jobs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, j := range jobs {
		g.Go(func() (err error) {
			if found[i], err = j.load(gctx, r.options); err != nil {
				return fmt.Errorf("package repository %s: index %s: %w", j.repo.name(), j.path, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	x.build(found)
	return x, nil
}

// jobs returns the indexes to read, each once. A repository that lacks the architecture is skipped with a
// note, as apt does; one that claims to have it and lists no index is an error.
func (r *Releases) jobs() ([]job, error) {
	var out []job
	r.notes = nil
	seen := map[string]bool{}
	add := func(j job) {
		if key := j.repo.dir + "/" + j.path; !seen[key] {
			seen[key] = true
			out = append(out, j)
		}
	}
	for _, repo := range r.repos {
		if repo.note != "" {
			r.notes = append(r.notes, repo.note)
		}
		if repo.flat {
			add(job{repo, "", "Packages"})
			continue
		}
		archs := repo.rel.architectures
		if len(archs) > 0 && !slices.Contains(archs, r.options.Arch) && !slices.Contains(archs, "all") {
			r.notes = append(r.notes, fmt.Sprintf("%s has nothing for %s, only for %s", repo.name(), r.options.Arch, strings.Join(archs, ", ")))
			continue
		}
		for _, c := range repo.components {
			n := len(out)
			listed := false
			for _, arch := range []string{r.options.Arch, "all"} {
				if arch == "all" && !slices.Contains(archs, "all") {
					continue
				}
				j := job{repo, c, path.Join(c, "binary-"+arch, "Packages")}
				if len(j.choices()) > 0 {
					listed = true
					add(j)
				}
			}
			if !listed && len(out) == n {
				return nil, fmt.Errorf("package repository %s: %w: its Release file lists no index of component %s for %s",
					repo.name(), distros.ErrIndex, c, r.options.Arch)
			}
		}
	}
	return out, nil
}

// choice is one form (compression) of an index.
type choice struct {
	ending string
	sum
}

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
		return nil, fmt.Errorf("%w: the Release file does not list it with a sha256", distros.ErrIndex)
	}
	// A form that is already in the store saves a download, whatever its compression.
	slices.SortStableFunc(choices, func(a, b choice) int {
		return btoi(o.Fetch.Store.Has(b.sha256)) - btoi(o.Fetch.Store.Has(a.sha256))
	})
	plain, known := j.repo.rel.indexes[j.path]
	if !known {
		plain.size = maxIndex
	}
	if plain.size > maxIndex {
		return nil, fmt.Errorf("%w: it has %d bytes, more than the %d allowed", distros.ErrIndex, plain.size, maxIndex)
	}
	var file string
	again := fetch.Retry{Attempts: 4, Backoff: cmp.Or(o.Fetch.Backoff, time.Second), Final: func(err error) bool {
		return !errors.Is(err, distros.ErrIndex) && !errors.Is(err, fs.ErrNotExist)
	}}
	// A server behind the one that sent the Release file may be a little behind it.
	_, err := again.Do(ctx, func(ctx context.Context) (_ bool, err error) {
		file, err = j.fetch(ctx, o.Fetch, choices)
		return false, err
	})
	if err != nil {
		return nil, err
	}
	var entries []entry
	err = compression.Unpack(ctx.Err, file, plain.size, func(in io.Reader) (err error) {
		entries, err = j.read(in, o.Arch)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", distros.ErrIndex, err)
	}
	return entries, nil
}

// fetch returns the first form that the server has. Release files list forms that do not exist (Debian's
// uncompressed ones), and mirrors may lack the by-hash folders.
func (j job) fetch(ctx context.Context, client *fetch.Client, choices []choice) (file string, err error) {
	var missing []error
	for _, c := range choices {
		for _, url := range j.urls(c) {
			file, _, err := client.Get(ctx, fetch.File{URL: url, SHA256: c.sha256, Size: c.size}, nil)
			var mismatch *fetch.MismatchError
			switch {
			case err == nil:
				return file, nil
			case errors.As(err, &mismatch):
				return "", fmt.Errorf("%w (a mirror in the middle of an update? then try again in some minutes): %w", distros.ErrIndex, err)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fetch.ErrOffline):
				return "", err
			}
			missing = append(missing, err)
		}
	}
	return "", errors.Join(missing...)
}

func (j job) urls(c choice) []string {
	name := j.repo.dir + "/" + j.path + c.ending
	if !j.repo.rel.byHash || j.repo.source.NoByHash {
		return []string{name}
	}
	return []string{j.repo.dir + "/" + path.Join(path.Dir(j.path), "by-hash/SHA256", c.sha256), name}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

const maxEntries = 1 << 21 // packages of one index; Debian's main has 63000

// read parses an index.
func (j job) read(in io.Reader, arch string) (all []entry, err error) {
	for p, err := range dpkg.ReadParagraphs(in) {
		if err != nil {
			return nil, err
		}
		e, err := newEntry(p)
		if err != nil {
			return nil, err
		}
		if e.arch != arch && e.arch != "all" {
			continue
		}
		if len(all) == maxEntries {
			return nil, fmt.Errorf("more than %d packages", maxEntries)
		}
		e.repo, e.component = j.repo, j.component
		all = append(all, e)
	}
	return all, nil
}

// newEntry keeps only the text of a paragraph: its parsed fields would take as much memory again.
func newEntry(p dpkg.Paragraph) (entry, error) {
	e := entry{name: p.Get("Package"), version: p.Get("Version"), arch: p.Get("Architecture"), provides: p.Get("Provides"), raw: p.String()}
	if e.name == "" || e.version == "" || e.arch == "" {
		return e, errors.New("a package without name, version or architecture")
	}
	return e, nil
}
