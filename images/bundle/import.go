package bundle

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// ErrLacks says that the registry lacks blobs that the bundle does not have either. Nothing was
// pushed.
var ErrLacks = failure.New(failure.Network, "neither in the bundle nor in the registry")

// ImportOptions say where a bundle goes.
type ImportOptions struct {
	To string // repository that takes the place of the origin
	// let images with vGPU guest drivers go to registries that are known to be public
	AllowPublic bool
	DryRun      bool             // ask the registry, and push nothing
	Jobs        int              // parallel transfers; 0: 4
	Sign        signature.Signer // with the site's key, before anything gets a tag; nil: no
	// bytes of the blobs that the registry has, and of all; nil: no reports
	Progress func(done, total int64)
}

// Result is what an import did. Items are those of the list, with the names that they have at the
// site.
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

	mu     sync.Mutex
	result Result
	there  map[string]bool // repository@digest of the items that the registry had
	done   int64           // bytes of blobs
	total  int64
}

// Import pushes a bundle that was checked, or one that passes a pipe: its blobs are then pushed as
// they pass, each verified. Nothing has a name before everything that it leads to is there and all
// of the bundle is verified. The registry is the only state: an import that was stopped anywhere is
// continued by repeating it. It mounts blobs from the repositories of the client's MountFrom.
func (b *Bundle) Import(ctx context.Context, c *registry.Client, o ImportOptions) (*Result, error) {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	t := &transfer{ImportOptions: o, client: c, bundle: b, there: map[string]bool{}}
	steps := []func(context.Context) error{t.rename, t.ask, t.search, t.pushBlobs, t.pushNames}
	if o.DryRun {
		steps = steps[:3]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return &t.result, fmt.Errorf("import into %s: %w", o.To, err)
		}
	}
	return &t.result, nil
}

// Rename returns the repository at the site of a repository at the origin: the origin's name is
// replaced. What comes from elsewhere, such as a base image, keeps its whole name below the site's
// repository.
func Rename(repository, origin, to string) string {
	if rest, ok := strings.CutPrefix(repository+"/", origin+"/"); ok {
		return strings.TrimSuffix(to+"/"+rest, "/")
	}
	return to + "/" + strings.ReplaceAll(repository, ":", "-")
}

// rename gives the items their names at the site, and checks these.
func (t *transfer) rename(context.Context) (err error) {
	parts := slices.Clone(t.bundle.graph.parts)
	for n := range parts {
		p := &parts[n]
		p.Repository = Rename(p.Repository, t.bundle.List.Origin, t.To)
		err := imagename.CheckRepository(p.Repository)
		if err != nil {
			return err
		}
		t.result.Done = append(t.result.Done, p.Item)
		for _, d := range p.Documents {
			err := registry.CheckPublicDocument(p.Repository, d.Raw)
			if err != nil && !t.AllowPublic {
				return err
			}
		}
	}
	for _, b := range t.bundle.List.Blobs {
		t.total += b.Size
	}
	t.needs, err = newGraph(parts)
	return err
}

func (t *transfer) parallel(
	ctx context.Context,
	n int,
	f func(ctx context.Context, n int) error,
) error {
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(t.Jobs)
	for i := range n {
		jobs.Go(func() error { return f(ctx, i) })
	}
	return jobs.Wait()
}

// ask finds the items that are there.
func (t *transfer) ask(ctx context.Context) error {
	return t.parallel(ctx, len(t.needs.parts), func(ctx context.Context, n int) error {
		ref := t.needs.parts[n].ref()
		found, err := t.client.Has(ctx, ref)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.there[ref] = found
		return err
	})
}

// pushBlobs pushes the blobs of the bundle, and those that can only be mounted.
func (t *transfer) pushBlobs(ctx context.Context) error {
	err := t.pushPresent(ctx)
	if err != nil {
		return err
	}
	for _, a := range t.bundle.List.Absent {
		open := func() (io.ReadCloser, error) {
			return nil, fmt.Errorf(
				"%s is in another repository, from which the registry does not mount it: here it is %w",
				a.Digest, ErrLacks,
			)
		}
		err := t.pushBlob(ctx, oci.Blob{Desc: a.descriptor(), Open: open})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) pushPresent(ctx context.Context) error {
	if t.bundle.file == nil {
		return t.bundle.pass(ctx, t.pushBlob, func(f Fault) error { return f })
	}
	here := t.bundle.List.present()
	return t.parallel(ctx, len(here), func(ctx context.Context, n int) error {
		d := here[n].descriptor()
		open := func() (io.ReadCloser, error) { return t.bundle.open(d) }
		return t.pushBlob(ctx, oci.Blob{Desc: d, Open: open})
	})
}

// pushBlob makes sure that all repositories that need a blob have it: it goes to one, and is
// mounted into the others.
func (t *transfer) pushBlob(ctx context.Context, b oci.Blob) error {
	sent := 0
	for _, repository := range t.needs.users[b.Desc.Digest] {
		state, err := t.client.PushBlob(ctx, repository, b)
		if err != nil {
			return err
		}
		if state == registry.Done {
			sent++
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Sent += sent
	t.result.Bytes += int64(sent) * b.Desc.Size
	if t.done += b.Desc.Size; t.Progress != nil {
		t.Progress(t.done, t.total)
	}
	return nil
}

// pushNames pushes manifests, then what belongs to them and the signatures of the site, for each
// repository at once because that waits for other signers, then tags.
func (t *transfer) pushNames(ctx context.Context) error {
	attachments := map[string][]oci.Attachment{}
	for _, p := range t.needs.parts {
		if p.Subject != nil {
			attachments[p.Repository] = append(attachments[p.Repository], p.attachment)
			continue
		}
		if t.there[p.ref()] {
			continue
		}
		_, err := t.client.PushContent(ctx, p.ref(), p.Content, nil)
		if err != nil {
			return err
		}
	}
	for _, p := range t.needs.parts {
		if t.Sign == nil || p.Subject != nil {
			continue
		}
		signatures, err := t.signatures(ctx, p, attachments[p.Repository])
		if err != nil {
			return fmt.Errorf("sign %s: %w", p.ref(), err)
		}
		attachments[p.Repository] = append(attachments[p.Repository], signatures...)
	}
	for _, repository := range slices.Sorted(maps.Keys(attachments)) {
		_, err := t.client.Attach(ctx, repository, attachments[repository]...)
		if err != nil {
			return err
		}
	}
	for _, p := range t.needs.parts {
		if p.Subject != nil || len(p.Tags) == 0 {
			continue
		}
		_, err := t.client.PushContent(ctx, p.ref(), p.Content, nil, p.Tags...)
		if err != nil {
			return err
		}
	}
	return nil
}

// signatures returns the site's signatures, under the names of the site, of an artifact and of each
// image in it. What is signed by the key already, in the registry or in the bundle, is not signed
// again.
func (t *transfer) signatures(
	ctx context.Context,
	p part,
	brought []oci.Attachment,
) ([]oci.Attachment, error) {
	var there []oci.Attachment
	var err error
	if t.there[p.ref()] {
		there, err = t.client.Attachments(ctx, p.ref())
		if err != nil {
			return nil, err
		}
	}
	request := signature.Request{Repository: p.Repository, Tags: p.Tags, Format: signature.Legacy}
	request.Subjects = signature.Subjects(p.Documents, slices.Concat(there, brought))
	made, err := signature.Sign(ctx, request, t.Sign)
	signed := map[v1.Hash]bool{}
	for _, a := range made {
		signed[a.Subject] = true
	}
	t.result.Signed += len(signed)
	return made, err
}
