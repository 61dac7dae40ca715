package bundle

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/publicguard"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// ErrLacks says that the registry lacks blobs that the bundle does not have either. Nothing was pushed.
var ErrLacks = failure.New(failure.Network, "neither in the bundle nor in the registry")

// ImportOptions say where a bundle goes.
type ImportOptions struct {
	To          string                  // repository that takes the place of the origin
	MountFrom   []string                // repositories of the same registry that may have the blobs
	AllowPublic bool                    // let images with vGPU guest drivers go to registries that are known to be public
	DryRun      bool                    // ask the registry, and push nothing
	Jobs        int                     // parallel transfers; 0: 4
	Sign        signature.Signer        // with the site's key, before anything gets a tag; nil: no
	Progress    func(done, total int64) // bytes of the blobs that the registry has, and of all; nil: no reports
}

// Result is what an import did. Items are those of the list, with the names that they have at the site.
type Result struct {
	Done   []Item
	Sent   int   // blobs
	Bytes  int64 // of these
	Signed int   // manifests that got a signature of the site
}

// transfer is the state of one import.
type transfer struct {
	ImportOptions
	client *registry.Client
	bundle *Bundle
	needs  *graph // of all items, at the site

	mu      sync.Mutex
	result  Result
	holders map[v1.Hash][]string // repositories that are known to have a blob
	done    int64                // bytes of blobs
	total   int64
}

// Import pushes a bundle that was checked, or one that passes a pipe: its blobs are then pushed as they pass, each
// verified. Nothing has a name before everything that it leads to is there and all of the bundle is verified.
// The registry is the only state: an import that was stopped anywhere is continued by repeating it.
func (b *Bundle) Import(ctx context.Context, c *registry.Client, o ImportOptions) (*Result, error) {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	t := &transfer{ImportOptions: o, client: c, bundle: b, holders: map[v1.Hash][]string{}}
	err := t.rename()
	if err == nil {
		err = t.search(ctx)
	}
	if err == nil && !o.DryRun {
		err = t.pushBlobs(ctx)
	}
	if err == nil && !o.DryRun {
		err = t.pushNames(ctx)
	}
	if err != nil {
		err = fmt.Errorf("import into %s: %w", o.To, err)
	}
	return &t.result, err
}

// Rename returns the repository at the site of a repository at the origin: the origin's name is replaced.
// What comes from elsewhere, such as a base image, keeps its whole name below the site's repository.
func Rename(repository, origin, to string) string {
	if rest, ok := strings.CutPrefix(repository+"/", origin+"/"); ok {
		return strings.TrimSuffix(to+"/"+rest, "/")
	}
	return to + "/" + strings.ReplaceAll(repository, ":", "-")
}

// rename gives the items their names at the site, and checks these.
func (t *transfer) rename() (err error) {
	for _, i := range t.bundle.List.Items {
		i.Repository = Rename(i.Repository, t.bundle.List.Origin, t.To)
		if err := imagename.CheckRepository(i.Repository); err != nil {
			return err
		}
		t.result.Done = append(t.result.Done, i)
	}
	if t.needs, err = collect(t.result.Done, t.bundle.documents); err != nil {
		return err
	}
	for _, d := range t.needs.documents {
		for _, repository := range t.needs.users[d.Digest] {
			if err := publicguard.CheckDocument(repository, repository, t.bundle.documents[d.Digest]); err != nil && !t.AllowPublic {
				return err
			}
		}
	}
	for _, b := range t.bundle.List.Blobs {
		t.total += b.Size
	}
	return nil
}

func (t *transfer) parallel(ctx context.Context, n int, f func(ctx context.Context, n int) error) error {
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(t.Jobs)
	for i := range n {
		jobs.Go(func() error { return f(ctx, i) })
	}
	return jobs.Wait()
}
