// Package importing puts a bundle that was verified into the registry of a site. Nothing that has a name
// appears before everything that it leads to is there, and the registry is the only state: an import that was
// stopped anywhere is continued by repeating it.
package importing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/publicguard"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// Registry is the registry of a site. repository is a name with its registry.
type Registry interface {
	// HasBlob says whether a repository has a blob.
	HasBlob(ctx context.Context, repository string, h v1.Hash) (bool, error)
	// HasManifest says whether a name (a tag or a digest) leads to a manifest.
	HasManifest(ctx context.Context, repository, name string, h v1.Hash) (bool, error)
	// PushBlob makes sure that a repository has a blob: it exists there, or is mounted from another repository,
	// or is sent.
	PushBlob(ctx context.Context, repository string, b oci.Blob, from ...string) (registry.State, error)
	// PushManifest puts a manifest under a tag or its digest.
	PushManifest(ctx context.Context, repository, name string, d oci.Document) error
	// Attach puts an attachment where it is found by its tag, or as a referrer of its subject. Layers that are
	// under the tag already stay.
	Attach(ctx context.Context, repository string, all ...oci.Attachment) (registry.Stats, error)
	// Attachments returns what belongs to an artifact and to the manifests in it.
	Attachments(ctx context.Context, ref string) ([]oci.Attachment, error)
}

// ErrLacks says that the registry lacks blobs that the bundle does not have either. Nothing was pushed.
var ErrLacks = errors.New("blobs are neither in the bundle nor in the registry")

// Options say where a bundle goes.
type Options struct {
	To        string   // repository that takes the place of the origin
	MountFrom []string // repositories of the same registry that may have the blobs
	// AllowPublic lets images with vGPU guest drivers go to registries that are known to be public.
	AllowPublic bool
	DryRun      bool // ask the registry, and push nothing
	Jobs        int  // parallel transfers; 0: 4

	Progress func(done, total int64) // bytes that the registry has, of those that it lacked; nil: no reports

	Sign signature.Signer // with the site's key, before anything gets a tag; nil: no
}

// Result is what an import did. Items are those of the list, with the names that they have at the site.
type Result struct {
	Done   []bundle.Item
	Sent   int   // blobs
	Bytes  int64 // of these
	Signed int   // manifests that got a signature of the site
}

// transfer is the state of one import.
type transfer struct {
	Options
	registry     Registry
	bundle       *reading.Bundle
	items        []*item
	repositories []string         // of the items, at the site
	readable     map[v1.Hash]bool // blobs that this bundle has
	holders      map[v1.Hash][]string
	attachments  map[string][]oci.Attachment // of the current step, by repository

	mu     sync.Mutex
	result Result
	done   int64 // bytes of blobs that the registry has got, in all repositories
	total  int64
}

// item is an item at the site.
type item struct {
	bundle.Item
	blobs     []v1.Descriptor
	documents []oci.Document // of an index before the index
	there     bool           // the registry has it already
}

// Import pushes a bundle. The caller has verified it. Errors: ErrLacks, and those of the registry.
func Import(ctx context.Context, b *reading.Bundle, r Registry, o Options) (*Result, error) {
	t, err := begin(ctx, b, r, o)
	if err != nil {
		return nil, fmt.Errorf("import into %s: %w", o.To, err)
	}
	for _, l := range b.List.Blobs {
		_, t.readable[l.Digest] = b.Blob(l.Digest)
	}
	err = t.needs(ctx)
	if err == nil && !o.DryRun {
		err = t.blobs(ctx)
	}
	if err == nil {
		err = t.finish(ctx)
	}
	if err != nil {
		return &t.result, fmt.Errorf("import into %s: %w", o.To, err)
	}
	return &t.result, nil
}

// begin asks the registry what it has.
func begin(ctx context.Context, b *reading.Bundle, r Registry, o Options) (*transfer, error) {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	if err := imagename.CheckRepository(o.To); err != nil {
		return nil, err
	}
	t := &transfer{Options: o, registry: r, bundle: b, readable: map[v1.Hash]bool{}, holders: map[v1.Hash][]string{}, attachments: map[string][]oci.Attachment{}}
	for _, i := range b.List.Items {
		x := &item{Item: i}
		x.Repository = Rename(i.Repository, b.List.Origin, o.To)
		if err := imagename.CheckRepository(x.Repository); err != nil {
			return nil, err
		}
		x.collect(b.Documents, i.Descriptor.Digest, map[v1.Hash]bool{})
		for _, d := range x.documents {
			if err := publicguard.CheckDocument(x.Repository, x.Repository, d.Raw); err != nil && !o.AllowPublic {
				return nil, err
			}
		}
		t.items = append(t.items, x)
		if !slices.Contains(t.repositories, x.Repository) {
			t.repositories = append(t.repositories, x.Repository)
		}
	}
	return t, t.parallel(ctx, len(t.items), func(ctx context.Context, n int) (err error) {
		x := t.items[n]
		x.there, err = r.HasManifest(ctx, x.Repository, x.Descriptor.Digest.String(), x.Descriptor.Digest)
		return err
	})
}

// Rename returns the repository at the site of a repository at the origin: the origin's name is replaced.
// What comes from elsewhere, such as a base image, keeps its whole name below the site's repository.
func Rename(repository, origin, to string) string {
	if rest, ok := strings.CutPrefix(repository+"/", origin+"/"); ok {
		return strings.TrimSuffix(to+"/"+rest, "/")
	}
	return to + "/" + strings.ReplaceAll(repository, ":", "-")
}

// collect adds a document, after those that it names, and their blobs.
func (x *item) collect(all map[v1.Hash][]byte, h v1.Hash, seen map[v1.Hash]bool) {
	refs, err := bundle.Refer(all[h])
	if seen[h] || err != nil { // the list was compared with the documents
		return
	}
	seen[h] = true
	for _, d := range refs.Documents {
		x.collect(all, d.Digest, seen)
	}
	for _, d := range refs.Blobs {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			x.blobs = append(x.blobs, d)
		}
	}
	raw := all[h]
	x.documents = append(x.documents, oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: refs.MediaType, Size: int64(len(raw)), Digest: h}})
}

// needs asks the registry for the blobs that the bundle does not have.
func (t *transfer) needs(ctx context.Context) error {
	users := t.users()
	var missing []bundle.Blob
	for _, b := range t.bundle.List.Blobs {
		if len(users[b.Digest]) > 0 && !t.has(b.Digest) {
			missing = append(missing, b)
		}
	}
	err := t.parallel(ctx, len(missing), func(ctx context.Context, n int) error {
		return t.search(ctx, users[missing[n].Digest], missing[n].Digest)
	})
	if err != nil {
		return err
	}
	for _, b := range t.bundle.List.Blobs {
		if t.has(b.Digest) || len(t.holders[b.Digest]) > 0 {
			t.total += b.Size * int64(len(users[b.Digest]))
		}
	}
	sources := map[v1.Hash]string{}
	for _, a := range t.bundle.List.Absent {
		sources[a.Digest] = a.Source
	}
	lacks := &lacksError{bytes: map[string]int64{}}
	for _, b := range missing {
		if len(t.holders[b.Digest]) == 0 {
			lacks.first = cmp.Or(lacks.first, b.Digest.String())
			lacks.blobs++
			lacks.bytes[sources[b.Digest]] += b.Size
		}
	}
	if lacks.blobs > 0 {
		return lacks
	}
	return nil
}

// has says whether the content of a blob is at hand.
func (t *transfer) has(h v1.Hash) bool { return t.readable[h] || h == bundle.EmptyConfig().Desc.Digest }

// search looks for a blob in the repositories that need it, and then in all that it may be mounted from.
func (t *transfer) search(ctx context.Context, users []string, h v1.Hash) error {
	asked := map[string]bool{}
	for _, repository := range slices.Concat(users, t.repositories, t.MountFrom) {
		if asked[repository] {
			continue
		}
		asked[repository] = true
		found, err := t.registry.HasBlob(ctx, repository, h)
		if err != nil {
			return err
		}
		if found {
			t.mu.Lock()
			t.holders[h] = append(t.holders[h], repository)
			t.mu.Unlock()
			return nil
		}
	}
	return nil
}

// lacksError says how much is missing, and where it was.
type lacksError struct {
	blobs int
	first string
	bytes map[string]int64 // by what has them
}

func (e *lacksError) Error() string {
	const most = 3
	var sources []string
	for _, s := range slices.Sorted(maps.Keys(e.bytes)) {
		sources = append(sources, fmt.Sprintf("%.1f MB that %s has", float64(e.bytes[s])/1e6, s))
	}
	if n := len(sources) - most; n > 0 {
		sources = append(sources[:most], fmt.Sprintf("and those of %d more", n))
	}
	return fmt.Sprintf("%d %v, the first is %s: %s. Nothing was pushed: import what has them first, or make a bundle without --since",
		e.blobs, ErrLacks, e.first, strings.Join(sources, ", "))
}

// FailureKind says what the command makes of it.
func (*lacksError) FailureKind() failure.Kind { return failure.Network }

// Is makes it one of the errors of registries, because the same commands help.
func (e *lacksError) Is(target error) bool {
	return target == ErrLacks || target == fetch.ErrUnreachable
}
