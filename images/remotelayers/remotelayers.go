// Package remotelayers makes registries the cache of layers. The manifest of a pushed image says of each layer
// from which key it was made ([recipe.LabelKey]), and tags named layer-KEY lead from keys to images. A
// [Finder] finds finished layers in this way, so that a build on an empty machine makes, downloads and sends
// only what is new; [Publisher] adds the tags.
//
// It makes no layers, and it trusts no registry: content counts by its digest, and with keys only what an
// image says that one of them signed.
package remotelayers

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// Options say where layers are looked for, and whose images count.
type Options struct {
	Registry *registry.Client
	From     []string           // repositories, in this order
	Keys     []crypto.PublicKey // one of them must have signed an image; none: any image counts
	Needed   bool               // the content of all layers is going to be read
	Observe  progress.Observer
}

// Finder finds finished layers. It is safe for concurrent use, and asks each question once.
type Finder struct {
	Options
	lasting func() context.Context

	mu     sync.Mutex
	asked  map[string]func() // reference and architecture: reads the image once
	layers map[place]*layer.Remote
	images map[place]v1.Hash      // by tag: the image that counts there
	judged map[place]func() error // by digest of the image
	failed map[string]bool        // repositories that did not answer

	complete map[place]bool // blobs that a repository has, by digest
}

// place is a key, or a tag, in a repository. The keys of outlines have no architecture.
type place struct{ repository, arch, name string }

// maxOutline bounds the outline of a layer, in bytes. That of 20,000 files has 1 MB.
const maxOutline = 64 << 20

// New returns a finder. Layers are downloaded when they are read, while ctx lasts.
func New(ctx context.Context, o Options) *Finder {
	return &Finder{
		Options: o, lasting: func() context.Context { return ctx },
		asked: map[string]func(){}, layers: map[place]*layer.Remote{}, images: map[place]v1.Hash{}, judged: map[place]func() error{}, failed: map[string]bool{},
		complete: map[place]bool{},
	}
}

// Verifies says whether only signed images count.
func (f *Finder) Verifies() bool { return len(f.Keys) > 0 }

// Base returns a base image, whose layers are downloaded when they are read.
func (f *Finder) Base(ref, arch string) (*registry.Opened, error) {
	o := registry.OpenOptions{Arch: arch, Part: registry.Config}
	if oci.IsLocal(ref) {
		o.Part = registry.Layers
	}
	return f.Registry.Open(f.lasting(), ref, o)
}

// Read reads what the image under a tag says of its layers, in all repositories. A registry that fails is
// left out from then on, with a note.
func (f *Finder) Read(tag, arch string) {
	var all sync.WaitGroup
	for _, repository := range f.From {
		all.Go(func() { f.read(repository, tag, arch) })
	}
	all.Wait()
}

// Find returns the layer of a key. If no image that was read has it, it asks for the tag of the key.
func (f *Finder) Find(of layer.Spec) (*layer.Remote, bool) {
	for _, repository := range f.From {
		if l, ok := f.findIn(repository, of); ok {
			return l, true
		}
	}
	return nil, false
}

func (f *Finder) findIn(repository string, of layer.Spec) (*layer.Remote, bool) {
	at := place{repository, of.Arch, of.Key}
	l, ok := f.known(at)
	if !ok && !of.Single {
		f.read(repository, Tag(of.Key), of.Arch)
		l, ok = f.known(at)
	}
	return l, ok
}

func (f *Finder) known(at place) (*layer.Remote, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.layers[at]
	return l, ok
}

// Tag is the tag that leads from the key of a layer to an image that has it.
func Tag(key string) string { return oci.LayerTagPrefix + key }

// read reads an image once.
func (f *Finder) read(repository, tag, arch string) {
	name := repository + ":" + tag
	f.mu.Lock()
	once := f.asked[name+" "+arch]
	if once == nil {
		once = sync.OnceFunc(func() { f.note(name, f.readImage(repository, tag, arch)) })
		f.asked[name+" "+arch] = once
	}
	f.mu.Unlock()
	once()
}

// errNotUsed is about one image. Any other error is about its repository.
var errNotUsed = errors.New("its layers are not used")

func (f *Finder) note(name string, err error) {
	if err == nil || errors.Is(err, errNoted) || f.lasting().Err() != nil {
		return
	}
	repository, _, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	text := "warning: " + name + ": " + strings.Join(strings.Fields(err.Error()), " ")
	if !errors.Is(err, errNotUsed) {
		f.mu.Lock()
		before := f.failed[repository]
		f.failed[repository] = true
		f.mu.Unlock()
		if before {
			return
		}
		text = fmt.Sprintf("warning: no layers are taken from %s, and the build goes on without: %s", repository, strings.Join(strings.Fields(err.Error()), " "))
	}
	step := f.Observe.Begin(name, "layer cache")
	step.Note(text)
	_ = step.End(true, nil) // it returns its argument
}

func (f *Finder) readImage(repository, tag, arch string) error {
	f.mu.Lock()
	failed := f.failed[repository]
	f.mu.Unlock()
	if failed {
		return nil
	}
	ctx := f.lasting()
	found, err := f.Registry.Open(ctx, repository+":"+tag, registry.OpenOptions{Arch: arch, Part: registry.Config})
	if _, other := errors.AsType[*oci.PlatformError](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	manifest, err := found.Image.Manifest()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(manifest.Layers, func(d v1.Descriptor) bool { return d.Annotations[recipe.LabelKey] != "" }) {
		return nil // of an older driver-build, or of another program
	}
	if err := f.verify(ctx, repository, found); err != nil {
		return err
	}
	config, err := found.Image.ConfigFile()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[place{repository, arch, tag}] = found.Digest
	histories, _ := layer.Histories(config, len(manifest.Layers))
	for i, d := range manifest.Layers {
		_, name, _ := strings.Cut(histories[i].CreatedBy, ": ")
		f.add(repository, arch, name, d, config.RootFS.DiffIDs[i])
	}
	return nil
}

// verify refuses an image that none of the keys signed. Each image is judged once.
func (f *Finder) verify(ctx context.Context, repository string, found *registry.Opened) error {
	if !f.Verifies() {
		return nil
	}
	at := place{repository: repository, name: found.Digest.String()}
	f.mu.Lock()
	judge, again := f.judged[at]
	if !again {
		judge = sync.OnceValue(func() error { return f.judge(ctx, repository, found.Digest) })
		f.judged[at] = judge
	}
	f.mu.Unlock()
	err := judge()
	if err != nil && again {
		return errNoted
	}
	return err
}

// errNoted is an error that was noted before.
var errNoted = errors.New("refused before")

func (f *Finder) judge(ctx context.Context, repository string, image v1.Hash) error {
	have, err := f.Registry.Attachments(ctx, repository+"@"+image.String())
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(have, func(a oci.Attachment) bool { return a.Subject != image || a.Tag == oci.AttestationTag(image) })
	reports, err := signature.Verify([]signature.Subject{{Descriptor: v1.Descriptor{Digest: image}, Attachments: have}}, f.Keys)
	if err == nil {
		err = reports[0].Err()
	}
	if err != nil {
		return fmt.Errorf("%w, because no trusted key signed it: %w", errNotUsed, err)
	}
	return nil
}

// add notes a layer of an image, and its outline.
func (f *Finder) add(repository, arch, name string, d v1.Descriptor, diffID v1.Hash) {
	if key := d.Annotations[recipe.LabelKey]; key != "" {
		f.addTo(place{repository, arch, key}, name, d, diffID)
	}
	key, err := layer.OutlineKey(d.Digest)
	outline, ok := parseOutline(d.Annotations[recipe.LabelOutline])
	if err == nil && ok && (!f.Needed || f.Verifies()) { // else the layers are read, which gives their outlines
		f.addTo(place{repository, "", key}, layer.OutlineName, outline, v1.Hash{})
	}
}

func (f *Finder) addTo(at place, name string, d v1.Descriptor, diffID v1.Hash) {
	if f.layers[at] != nil || d.Size <= 0 {
		return
	}
	f.layers[at] = &layer.Remote{
		Record: layer.Record{Digest: d.Digest, DiffID: diffID, Size: d.Size, MediaType: d.MediaType}, Name: name,
		Annotations: d.Annotations, Needed: f.Needed && at.arch != "", Verified: f.Verifies(), Context: f.lasting,
		Fetch: func(ctx context.Context) error { return f.Registry.Fetch(ctx, at.repository, d) },
	}
}

// parseOutline reads the value of recipe.LabelOutline.
func parseOutline(text string) (d v1.Descriptor, ok bool) {
	digest, number, _ := strings.Cut(text, " ")
	size, err := strconv.ParseInt(number, 10, 64)
	if err != nil || size <= 0 || size > maxOutline {
		return d, false
	}
	h, err := v1.NewHash(digest)
	return v1.Descriptor{Digest: h, Size: size, MediaType: types.OCILayerZStd}, err == nil && h.Algorithm == "sha256"
}
