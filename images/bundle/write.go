package bundle

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// Artifact is an image, an index or anything else with a place in a repository, and what belongs to it.
type Artifact struct {
	Kind        Kind
	Title       string // for people; may be empty
	Repository  string // at the origin, with its registry
	Tags        []string
	Content     *oci.Content
	Attachments []oci.Attachment
}

// Options say what a bundle is like.
type Options struct {
	Origin  string           // repository whose name is replaced at the site
	Created int64            // seconds since 1970
	Tool    string           // program and version
	Since   []Stock          // what the site has
	Sign    signature.Signer // nil: unsigned
}

// Plan is a bundle that is known in every byte except the content of its blobs.
type Plan struct {
	List     *List
	Manifest v1.Descriptor // of the bundle
	Size     int64         // of the file, in bytes

	names    []string // of the members
	contents []oci.Blob
}

// Prepare makes the plan of a bundle. It opens no blob, and reads nothing but what it is given. The error is of
// kind failure.Usage when the artifacts make no bundle.
func Prepare(ctx context.Context, o Options, artifacts []Artifact) (*Plan, error) {
	s := selection{blobs: map[v1.Hash]oci.Blob{}, documents: map[v1.Hash]oci.Document{}, raw: map[v1.Hash][]byte{}, places: map[string]int{}}
	l, encoded, err := s.list(o, artifacts)
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "make the bundle: %w", err)
	}
	p := &Plan{List: l, Size: trailerSize}
	if err := p.head(ctx, o.Sign, encoded); err != nil {
		return nil, fmt.Errorf("make the bundle: %w", err)
	}
	for _, d := range l.Documents {
		p.add(blobOf(s.documents[d.Digest]))
	}
	for _, b := range l.present() {
		p.add(s.blobs[b.Digest])
	}
	for _, b := range p.contents {
		p.Size += blockSize + b.Desc.Size + padding(b.Desc.Size)
	}
	return p, nil
}

func blobOf(d oci.Document) oci.Blob { return oci.BytesBlob(d.Desc.MediaType, d.Raw, nil) }

func (p *Plan) add(b oci.Blob) { p.addNamed(blobFolder+b.Desc.Digest.Hex, b) }

func (p *Plan) addNamed(name string, b oci.Blob) {
	p.names, p.contents = append(p.names, name), append(p.contents, b)
}

// head adds what comes before the documents: index.json, and what belongs to the bundle itself.
func (p *Plan) head(ctx context.Context, key signature.Signer, list []byte) error {
	manifest, err := manifestOf(list)
	if err != nil {
		return err
	}
	p.Manifest = manifest.Desc
	own := []oci.Blob{blobOf(manifest), oci.BytesBlob(MediaType, list, nil), emptyConfig}
	var signed *v1.Descriptor
	if key != nil {
		request := signature.Request{Subjects: []signature.Subject{{Descriptor: manifest.Desc}}, Format: signature.Bundle}
		all, err := signature.Sign(ctx, request, key)
		if err != nil {
			return fmt.Errorf("sign it: %w", err)
		}
		signed = &all[0].Manifest.Desc
		own = append(own, blobOf(all[0].Manifest))
		own = append(own, slices.DeleteFunc(all[0].Blobs, isEmptyConfig)...)
	}
	index, err := p.List.index(manifest.Desc, signed)
	if err != nil {
		return err
	}
	p.addNamed(layoutName, oci.BytesBlob("", []byte(layoutVersion), nil))
	p.addNamed(indexName, oci.BytesBlob("", index, nil))
	for _, b := range own {
		p.add(b)
	}
	return nil
}

func isEmptyConfig(b oci.Blob) bool { return b.Desc.Digest == emptyConfig.Desc.Digest }

// Write writes the bundle. Blobs stream from where they are, each compared with its digest on the way. progress,
// if there is one, is called often, with the bytes that are written and all of them.
func (p *Plan) Write(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	out, done := tar.NewWriter(w), int64(0)
	for n, b := range p.contents {
		err := out.WriteHeader(header(p.names[n], b.Desc.Size))
		if err == nil {
			err = writeBlob(ctx, out, b, func(now int64) {
				if progress != nil {
					progress(done+now, p.Size)
				}
			})
		}
		if err != nil {
			return fmt.Errorf("write the bundle: %s: %w", p.names[n], err)
		}
		done += blockSize + b.Desc.Size + padding(b.Desc.Size)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if progress != nil {
		progress(p.Size, p.Size)
	}
	return nil
}

// writeBlob writes a blob to w, and compares it with its digest.
func writeBlob(ctx context.Context, w io.Writer, b oci.Blob, progress func(int64)) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	v := oci.Verify(r, b.Desc, "the source of the bundle")
	return errors.Join(fetch.Copy(ctx, w, v, progress), v.Close())
}

// selection is everything of all artifacts.
type selection struct {
	items     []Item
	places    map[string]int // repository@digest of an item, and where it is in items
	blobs     map[v1.Hash]oci.Blob
	documents map[v1.Hash]oci.Document
	raw       map[v1.Hash][]byte // of the documents
}

// list makes the list of artifacts, in whatever order they are given.
func (s *selection) list(o Options, artifacts []Artifact) (*List, []byte, error) {
	if len(artifacts) == 0 {
		return nil, nil, errors.New("nothing is selected")
	}
	sorted := slices.Clone(artifacts)
	slices.SortStableFunc(sorted, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(a.Kind.order(), b.Kind.order()), cmp.Compare(a.Repository, b.Repository),
			slices.Compare(a.Tags, b.Tags), compareHash(a.Content.Top().Desc.Digest, b.Content.Top().Desc.Digest))
	})
	for _, a := range sorted {
		s.add(a.Content.Blobs, a.Content.Documents...)
		s.addItem(Item{Kind: a.Kind, Title: a.Title, Repository: a.Repository, Tags: a.Tags, Descriptor: a.Content.Top().Desc})
	}
	for _, a := range sorted {
		if err := s.attach(a); err != nil {
			return nil, nil, err
		}
	}
	l := &List{Created: o.Created, Tool: o.Tool, Origin: o.Origin, Items: s.items}
	var err error
	if l.Documents, l.Blobs, err = collect(l.Items, s.raw); err != nil {
		return nil, nil, err
	}
	l.Absent = known(l.Blobs, o.Since)
	encoded, err := l.Encode()
	return l, encoded, err
}

func compareHash(a, b v1.Hash) int { return strings.Compare(a.Hex, b.Hex) }

func (s *selection) add(blobs []oci.Blob, documents ...oci.Document) {
	for _, b := range blobs {
		if _, there := s.blobs[b.Desc.Digest]; !there {
			s.blobs[b.Desc.Digest] = b
		}
	}
	for _, d := range documents {
		s.documents[d.Desc.Digest], s.raw[d.Desc.Digest] = d, d.Raw
	}
}

// addItem adds an item, or its tags to the same item. Descriptors lose what index.json must not say.
func (s *selection) addItem(i Item) {
	d := i.Descriptor
	i.Descriptor = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest, Platform: d.Platform, ArtifactType: d.ArtifactType}
	key := i.Repository + "@" + d.Digest.String()
	at, known := s.places[key]
	if !known {
		at = len(s.items)
		s.places[key] = at
		s.items = append(s.items, i)
	}
	tags := slices.Concat(s.items[at].Tags, i.Tags)
	slices.Sort(tags)
	s.items[at].Tags = slices.Compact(tags)
}

// attach adds the attachments of an artifact, each after what it belongs to.
func (s *selection) attach(a Artifact) error {
	ready := map[v1.Hash]bool{}
	for _, d := range a.Content.Documents {
		ready[d.Desc.Digest] = true
	}
	rest := slices.Clone(a.Attachments)
	slices.SortStableFunc(rest, func(x, y oci.Attachment) int {
		return cmp.Or(cmp.Compare(kindOf(x).order(), kindOf(y).order()), compareHash(x.Subject, y.Subject),
			cmp.Compare(x.Tag, y.Tag), compareHash(x.Manifest.Desc.Digest, y.Manifest.Desc.Digest))
	})
	for range maxDepth {
		var later, now []oci.Attachment
		for _, x := range rest {
			if ready[x.Subject] {
				now = append(now, x)
			} else {
				later = append(later, x)
			}
		}
		for _, x := range now {
			s.add(x.Blobs, append(x.Nested, x.Manifest)...)
			i := Item{Kind: kindOf(x), Repository: a.Repository, Subject: &x.Subject, Descriptor: x.Manifest.Desc}
			if x.Tag != "" {
				i.Tags = []string{x.Tag}
			}
			s.addItem(i)
			ready[x.Manifest.Desc.Digest] = true
		}
		if rest = later; len(rest) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s in %s belongs to %s, which is not selected", rest[0].Manifest.Desc.Digest, a.Repository, rest[0].Subject)
}
