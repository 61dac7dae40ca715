package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// Selection says what a bundle gets.
type Selection struct {
	// repository whose name is replaced at the site; images on this machine are put into it
	Origin string
	// REGISTRY/PATH:TAG, oci:DIR:TAG or oci-archive:FILE:TAG; none: every tag of Origin
	Images []string
	Keep   func(tag string) bool // which tags of Origin; nil: all
	Bases  []string              // images that others are built on, REGISTRY/PATH:TAG
	Charts []string              // folders, archives, or oci://REGISTRY/PATH:VERSION
	Files  []File                // inputs of builds
	// Fetched is what driver-build fetch printed: base images, and downloads in the cache.
	Fetched string
	Headers []string // releases of kernels whose headers a mirror has
	// tag of the artifact that has Files and the downloads, and of that with a mirror
	FileTag string
}

// File is a file of this machine. Title is its path at the site; "": its name.
type File struct{ Path, Title string }

// source is an artifact to take along: a reference, and the digest of a document that it must have;
// zero: any.
type source struct {
	kind   ItemKind
	ref    string
	digest v1.Hash
}

// Gather reads the documents of a selection.
func Gather(ctx context.Context, c *registry.Client, s Selection) ([]Artifact, error) {
	g := gatherer{client: c, origin: s.Origin, places: map[string]int{}}
	charts, files, err := local(ctx, s) // mistakes in them are found before a registry is asked
	if err != nil {
		return nil, err
	}
	images := s.Images
	if len(images) == 0 {
		tags, err := c.ListTags(ctx, s.Origin)
		if err != nil {
			return nil, err
		}
		for _, t := range tags {
			if s.Keep == nil || s.Keep(t) {
				images = append(images, s.Origin+":"+t)
			}
		}
		if len(images) == 0 {
			return nil, failure.Errorf(failure.Usage, "%s: the repository has no image that is selected", s.Origin)
		}
	}
	bases, downloads, err := fetched(ctx, s.Fetched)
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "--inputs: %w", err)
	}
	var sources []source
	for _, ref := range images {
		sources = append(sources, source{kind: Image, ref: ref})
	}
	sources = append(sources, bases...)
	for _, ref := range s.Bases {
		sources = append(sources, source{kind: Base, ref: ref})
	}
	for _, name := range s.Charts {
		if ref, remote := strings.CutPrefix(name, chartScheme); remote {
			sources = append(sources, source{kind: Chart, ref: ref})
		}
	}
	for _, from := range sources {
		if err := g.artifact(ctx, from); err != nil {
			return nil, err
		}
	}
	g.all = append(g.all, charts...)
	files = append(downloads, files...)
	if len(files) == 0 {
		return g.all, nil
	}
	content, err := filesArtifact(files)
	return append(g.all, Artifact{Kind: Inputs, Repository: g.origin + "/inputs", Tags: []string{s.FileTag}, Content: content}), err
}

// chartScheme begins the name of a chart in a registry.
const chartScheme = "oci://"

// local reads what a selection names on this machine: charts and files.
func local(ctx context.Context, s Selection) (charts []Artifact, files []oci.Blob, err error) {
	for _, name := range s.Charts {
		if ref, ok := strings.CutPrefix(name, chartScheme); ok {
			err = imagename.CheckImage(ref)
		} else {
			var chart Artifact
			chart, err = ReadChart(s.Origin, name)
			charts = append(charts, chart)
		}
		if err != nil {
			return nil, nil, failure.Errorf(failure.Usage, "--chart: %w", err)
		}
	}
	for _, f := range s.Files {
		b, err := fromFile(ctx, f.Path, f.Title)
		if err != nil {
			return nil, nil, failure.Errorf(failure.Usage, "--file: %w", err)
		}
		files = append(files, b)
	}
	return charts, files, nil
}

type gatherer struct {
	client *registry.Client
	origin string
	all    []Artifact
	places map[string]int // repository@digest, and where it is in all
}

// artifact adds an artifact of a registry or of this machine. The same artifact under another tag
// gets the tag.
func (g *gatherer) artifact(ctx context.Context, from source) error {
	kind := from.kind
	ref := from.ref
	want := from.digest
	opened, err := g.client.Open(ctx, ref, registry.OpenOptions{})
	if err != nil {
		return err
	}
	content, err := oci.Collect(opened.Artifact)
	if err != nil {
		return fmt.Errorf("read %s: %w", ref, err)
	}
	if want != (v1.Hash{}) &&
		!slices.ContainsFunc(
			content.Documents,
			func(d oci.Document) bool { return d.Desc.Digest == want },
		) {
		return failure.Errorf(
			failure.Usage,
			"%s has no image %s any more: run driver-build fetch again",
			ref,
			want,
		)
	}
	repository, tag, err := g.place(kind, ref, content.Top().Desc.Digest)
	if err != nil {
		return failure.Of(failure.Usage, err)
	}
	var tags []string
	if tag != "" {
		tags = []string{tag}
	}
	key := repository + "@" + content.Top().Desc.Digest.String()
	if at, known := g.places[key]; known {
		g.all[at].Tags = append(g.all[at].Tags, tags...)
		return nil
	}
	var attachments []oci.Attachment
	if kind != Base { // a build does not read what belongs to its base
		if !oci.IsLocal(ref) {
			ref = key // a tag may move between two requests
		}
		attachments, err = g.client.Attachments(ctx, ref)
		if err != nil {
			return err
		}
	}
	g.places[key] = len(g.all)
	g.all = append(
		g.all,
		Artifact{
			Kind:        kind,
			Repository:  repository,
			Tags:        tags,
			Content:     content,
			Attachments: attachments,
		},
	)
	return nil
}

// place returns the repository and the tag that an artifact has at the origin. A base of this
// machine has none and gets some.
func (g *gatherer) place(kind ItemKind, ref string, h v1.Hash) (repository, tag string, err error) {
	l, ok := oci.ParseLocal(ref)
	if !ok {
		repository, tag, _ = imagename.Split(ref)
		return repository, tag, imagename.CheckImage(ref)
	}
	repository = g.origin
	tag = l.Tag()
	if kind == Base {
		repository += "/base"
		if imagename.CheckTag(tag) != nil {
			tag = "base-" + h.Hex[:12]
		}
	}
	if tag == "" {
		err = fmt.Errorf("%s: give the tag that the image gets: %s:TAG", ref, ref)
	}
	return repository, tag, err
}
