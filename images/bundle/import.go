package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/publicguard"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// ErrLacks says that the registry lacks blobs that the bundle does not have either. Nothing was pushed.
var ErrLacks = failure.New(failure.Network, "neither in the bundle nor in the registry")

// ImportOptions say where a bundle goes.
type ImportOptions struct {
	To        string   // repository that takes the place of the origin
	MountFrom []string // repositories of the same registry that may have the blobs
	// AllowPublic lets images with vGPU guest drivers go to registries that are known to be public.
	AllowPublic bool
	DryRun      bool // ask the registry, and push nothing
	Jobs        int  // parallel transfers; 0: 4

	Progress func(done, total int64) // bytes of the blobs that the registry has, and of all; nil: no reports

	Sign signature.Signer // with the site's key, before anything gets a tag; nil: no
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
	client  *registry.Client
	bundle  *Bundle
	items   []*transferItem
	users   map[v1.Hash][]string        // repositories that need a blob
	holders map[v1.Hash][]string        // repositories that are known to have a blob
	added   map[string][]oci.Attachment // of the current step, by repository

	mu     sync.Mutex
	result Result
	done   int64 // bytes of blobs
	total  int64
}

// transferItem is an item at the site.
type transferItem struct {
	Item
	documents []oci.Document // of an index before the index
	blobs     []Blob
	there     bool // the registry has it already
}

// Import pushes a bundle that was checked, or one that passes a pipe: its blobs are then pushed as they pass, each
// verified. Nothing has a name before everything that it leads to is there and all of the bundle is verified.
// The registry is the only state: an import that was stopped anywhere is continued by repeating it.
func (b *Bundle) Import(ctx context.Context, c *registry.Client, o ImportOptions) (*Result, error) {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	t := &transfer{
		ImportOptions: o, client: c, bundle: b, users: map[v1.Hash][]string{}, holders: map[v1.Hash][]string{}, added: map[string][]oci.Attachment{},
	}
	for _, step := range []func(context.Context) error{t.begin, t.search, t.blobs, t.finish} {
		if err := step(ctx); err != nil {
			return &t.result, fmt.Errorf("import into %s: %w", o.To, err)
		}
	}
	return &t.result, nil
}

// Rename returns the repository at the site of a repository at the origin: the origin's name is replaced.
// What comes from elsewhere, such as a base image, keeps its whole name below the site's repository.
func Rename(repository, origin, to string) string {
	if rest, ok := strings.CutPrefix(repository+"/", origin+"/"); ok {
		return strings.TrimSuffix(to+"/"+rest, "/")
	}
	return to + "/" + strings.ReplaceAll(repository, ":", "-")
}

// begin asks the registry what it has.
func (t *transfer) begin(ctx context.Context) error {
	for _, i := range t.bundle.List.Items {
		x, err := t.newItem(i)
		if err != nil {
			return err
		}
		t.items = append(t.items, x)
		t.result.Done = append(t.result.Done, x.Item)
	}
	t.total = emptyConfig.Desc.Size
	for _, b := range t.bundle.List.Blobs {
		t.total += b.Size
	}
	err := t.parallel(ctx, len(t.items), func(ctx context.Context, n int) (err error) {
		x := t.items[n]
		x.there, err = t.client.HasManifest(ctx, x.Repository, x.Descriptor.Digest.String(), x.Descriptor.Digest)
		return err
	})
	for _, x := range t.items {
		for _, d := range x.blobs {
			if !x.there && !slices.Contains(t.users[d.Digest], x.Repository) {
				t.users[d.Digest] = append(t.users[d.Digest], x.Repository)
			}
		}
	}
	return err
}

func (t *transfer) newItem(i Item) (*transferItem, error) {
	documents, blobs, err := collect([]Item{{Descriptor: i.Descriptor}}, t.bundle.documents)
	x := &transferItem{Item: i, blobs: append(blobs, Blob{emptyConfig.Desc.Digest, emptyConfig.Desc.Size})}
	x.Repository = Rename(i.Repository, t.bundle.List.Origin, t.To)
	if err == nil {
		err = imagename.CheckRepository(x.Repository)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		raw := t.bundle.documents[d.Digest]
		refs, err := refer(raw)
		if err == nil && !t.AllowPublic {
			err = publicguard.CheckDocument(x.Repository, x.Repository, raw)
		}
		if err != nil {
			return nil, err
		}
		x.documents = append(x.documents, oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: refs.mediaType, Size: d.Size, Digest: d.Digest}})
	}
	return x, nil
}

func (t *transfer) parallel(ctx context.Context, n int, f func(ctx context.Context, n int) error) error {
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(t.Jobs)
	for i := range n {
		jobs.Go(func() error { return f(ctx, i) })
	}
	return jobs.Wait()
}
