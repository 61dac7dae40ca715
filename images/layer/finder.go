package layer

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// FinderOptions say where layers are looked for, and whose images count.
type FinderOptions struct {
	Registry *registry.Client
	From     []string           // repositories, in this order
	Keys     []crypto.PublicKey // one of them must have signed an image; none: any image counts
	Needed   bool               // the content of all layers is going to be read
	Observe  progress.Observer
}

// Finder finds finished layers in registries. It is safe for concurrent use, and asks each question
// once.
type Finder struct {
	FinderOptions
	ctx      context.Context //nolint:containedctx // lasts as long as images are read, which is longer than their build
	asked    Once[bool]      // by reference and architecture
	judged   Once[bool]      // by repository and digest of the image
	complete Once[bool]      // by repository and digest of the blob

	layers sync.Map // place -> *found
	// place of a tag -> v1.Hash of the image that counts there; repository@digest of each
	images sync.Map
	failed sync.Map // repositories that did not answer
}

// place is a key, or a tag, in a repository.
type place struct{ repository, arch, name string }

// found is a finished layer that a registry has.
type found struct {
	v1.Descriptor // in the manifest of its image
	diffID        v1.Hash
	repository    string
	name          string // in the history of its image: "packages"
	needed        bool   // its content is going to be read
	finder        *Finder
}

func (l *found) record() Record {
	return Record{Digest: l.Digest, DiffID: l.diffID, Size: l.Size, MediaType: l.MediaType}
}

// fetch brings the blob into the store, verified.
func (l *found) fetch(ctx context.Context) error {
	return l.finder.Registry.Fetch(ctx, l.repository, l.Descriptor)
}

// NewFinder returns a finder. Layers are downloaded when they are read, while ctx lasts.
func NewFinder(ctx context.Context, o FinderOptions) *Finder {
	return &Finder{FinderOptions: o, ctx: ctx}
}

// Verifies says whether only signed images count.
func (f *Finder) Verifies() bool { return len(f.Keys) > 0 }

// Base returns a base image, whose layers are downloaded when they are read.
func (f *Finder) Base(ref, arch string) (*registry.Opened, error) {
	o := registry.OpenOptions{Arch: arch, Part: registry.Config}
	if oci.IsLocal(ref) {
		o.Part = registry.Layers
	}
	return f.Registry.Open(f.ctx, ref, o)
}

// Read reads what the image under a tag says of its layers, in all repositories. A registry that
// fails is left out from then on, with a note.
func (f *Finder) Read(tag, arch string) {
	var all sync.WaitGroup
	for _, repository := range f.From {
		all.Go(func() { f.read(repository, tag, arch) })
	}
	all.Wait()
}

// find returns the layer of a key, nil if there is none.
func (f *Finder) find(of Spec) *found {
	for _, repository := range f.From {
		if l := f.findIn(repository, of); l != nil {
			return l
		}
	}
	return nil
}

// findIn asks for the tag of the key if no image that was read has the layer.
func (f *Finder) findIn(repository string, of Spec) *found {
	at := place{repository, of.Arch, of.Key}
	l := f.known(at)
	if l == nil && !of.Single {
		f.read(repository, tagOf(of.Key), of.Arch)
		l = f.known(at)
	}
	return l
}

func (f *Finder) known(at place) *found {
	known, _ := f.layers.Load(at)
	l, _ := known.(*found)
	return l
}

// tagOf is the tag that leads from the key of a layer to an image that has it.
func tagOf(key string) string { return oci.LayerTagPrefix + key }

// read reads an image once.
func (f *Finder) read(repository, tag, arch string) {
	_, _ = f.asked.Get(f.ctx, repository+":"+tag+" "+arch, func() (bool, error) {
		f.note(repository, repository+":"+tag, f.readImage(repository, tag, arch))
		return true, nil
	})
}

var (
	// is about one image; any other error is about its repository
	errNotUsed = errors.New("its layers are not used")
	errNoted   = errors.New("refused before") // was noted before
)

// note tells people why an image, or the whole repository, is left out.
func (f *Finder) note(repository, image string, err error) {
	if err == nil || errors.Is(err, errNoted) || f.ctx.Err() != nil {
		return
	}
	reason := strings.Join(strings.Fields(err.Error()), " ")
	text := "warning: " + image + ": " + reason
	if !errors.Is(err, errNotUsed) {
		if _, before := f.failed.LoadOrStore(repository, true); before {
			return
		}
		text = fmt.Sprintf(
			"warning: no layers are taken from %s, and the build goes on without: %s",
			repository,
			reason,
		)
	}
	f.say(image, text)
}

func (f *Finder) say(target, text string) {
	step := f.Observe.Begin(target, "layer cache")
	step.Note(text)
	_ = step.End(true, nil) // it returns its argument
}

func (f *Finder) readImage(repository, tag, arch string) error {
	if _, failed := f.failed.Load(repository); failed {
		return nil
	}
	opened, err := f.Registry.Open(
		f.ctx,
		repository+":"+tag,
		registry.OpenOptions{Arch: arch, Part: registry.Config},
	)
	if _, other := errors.AsType[*oci.PlatformError](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	manifest, err := opened.Image.Manifest()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(
		manifest.Layers,
		func(d v1.Descriptor) bool { return d.Annotations[recipe.LabelKey] != "" },
	) {
		return nil // of an older driver-build, or of another program
	}
	if err := f.verify(repository, opened.Digest); err != nil {
		return err
	}
	config, err := opened.Image.ConfigFile()
	if err != nil {
		return err
	}
	f.images.Store(place{repository, arch, tag}, opened.Digest)
	f.images.Store(repository+"@"+opened.Digest.String(), true)
	histories, _ := Histories(config, len(manifest.Layers))
	for i, d := range manifest.Layers {
		_, name, _ := strings.Cut(histories[i].CreatedBy, ": ")
		f.add(
			place{repository, arch, d.Annotations[recipe.LabelKey]},
			found{Descriptor: d, name: name, diffID: config.RootFS.DiffIDs[i], needed: f.Needed},
		)
	}
	return nil
}

func (f *Finder) add(at place, l found) {
	if at.name != "" && l.Size > 0 {
		l.repository = at.repository
		l.finder = f
		f.layers.LoadOrStore(at, &l)
	}
}

// verify refuses an image that none of the keys signed. Each image is judged once.
func (f *Finder) verify(repository string, image v1.Hash) error {
	if !f.Verifies() {
		return nil
	}
	again := true
	ref := repository + "@" + image.String()
	_, err := f.judged.Get(f.ctx, ref, func() (bool, error) {
		again = false
		have, err := f.Registry.Attachments(f.ctx, ref)
		if err != nil {
			return false, err
		}
		have = slices.DeleteFunc(
			have,
			func(a oci.Attachment) bool { return a.Subject != image || a.Tag == oci.AttestationTag(image) },
		)
		reports, err := signature.Verify(
			[]signature.Subject{{Descriptor: v1.Descriptor{Digest: image}, Attachments: have}},
			f.Keys,
		)
		if err == nil {
			err = reports[0].Err()
		}
		if err != nil {
			return false, fmt.Errorf("%w, because no trusted key signed it: %w", errNotUsed, err)
		}
		return true, nil
	})
	if err != nil && again {
		return errNoted
	}
	return err
}
