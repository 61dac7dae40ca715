package attestation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
)

// BuildDocuments says which documents a build gives to its images.
type BuildDocuments struct {
	SBOM       documents.Format // "": none
	Provenance bool
	Run        documents.Run // who runs the build, by which lock
	Repository string        // REGISTRY/PATH of the images; "": not known

	// Finished finds what earlier builds attached to the same image; nil: documents are made from
	// the image.
	Finished *layer.Finder
}

// Empty says whether there are no documents.
func (r BuildDocuments) Empty() bool { return r.SBOM == "" && !r.Provenance }

// Documents makes the documents of an artifact: those of each image, and those of the index if
// there is one, because verifiers ask for what the tag names. Each recipe is that of the image at
// its position. Equal builds give equal documents.
func (r BuildDocuments) Documents(ctx context.Context, cache layer.Cache, t oci.Artifact, images []v1.Image,
	recipes []*recipe.Recipe) (all []Document, err error) {
	top, err := t.Digest()
	if err != nil {
		return nil, err
	}
	var digests []v1.Hash
	for _, img := range images {
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	bills, err := r.bills(ctx, cache, top, digests, images, recipes)
	if err != nil {
		return nil, err
	}
	r.Run.GoVersion = runtime.Version()
	for n, digest := range digests {
		if r.SBOM != "" {
			all = append(all, bills[n])
		}
		if r.Provenance {
			body, err := documents.Provenance(recipes[n], r.Run)
			if err != nil {
				return nil, err
			}
			d := Document{Subjects: []v1.Hash{digest}, Type: documents.ProvenanceType, Body: body}
			if digest != top {
				d.Subjects = append(d.Subjects, top)
			}
			all = append(all, d)
		}
	}
	return append(all, bills[min(len(images), len(bills)):]...), nil
}

// bills makes the SBOM of each image and, of several images, that of their index. An SBOM is made
// from the content of its image. If that is not on this machine, because every layer was found in a
// registry, bills takes what an earlier build made from the same.
func (r BuildDocuments) bills(
	ctx context.Context,
	cache layer.Cache,
	top v1.Hash,
	digests []v1.Hash,
	images []v1.Image,
	recipes []*recipe.Recipe,
) (all []Document, err error) {
	if r.SBOM == "" {
		return nil, nil
	}
	model := documents.Model{Tool: recipes[0].Builder}
	if r.Repository != "" {
		model.Name = path.Base(r.Repository)
	}
	var public []*recipe.Recipe
	for _, of := range recipes {
		public = append(public, of.Public())
	}
	add := func(about v1.Hash, from, to int) {
		all = append(all, Document{
			Subjects: []v1.Hash{about},
			Type:     r.SBOM.PredicateType(),
			Referrer: r.SBOM.MediaType(),
			Key: layer.Key(
				"sbom", documents.SBOMMethod, r.SBOM, model, about, digests[from:to], public[from:to],
			),
		})
	}
	for n, digest := range digests {
		add(digest, n, n+1)
	}
	if len(images) > 1 {
		add(top, 0, len(images))
	}
	if r.Finished != nil && !areHere(cache, images) && r.fillFromRegistry(ctx, top, all) {
		return all, nil
	}
	whole := model
	for n, img := range images {
		i, err := readImage(ctx, cache, img, recipes[n])
		if err != nil {
			return nil, fmt.Errorf("make the SBOM of %s: %w", recipes[n].Target(), err)
		}
		whole.Images = append(whole.Images, i)
		model.Images = []*documents.ImageContent{i}
		all[n].Body, err = documents.SBOM(model, r.SBOM)
		if err != nil {
			return nil, err
		}
	}
	if len(images) > 1 {
		whole.Index = top.String()
		all[len(images)].Body, err = documents.SBOM(whole, r.SBOM)
	}
	return all, err
}

func readImage(
	ctx context.Context,
	cache layer.Cache,
	img v1.Image,
	r *recipe.Recipe,
) (*documents.ImageContent, error) {
	i, err := documents.ReadImage(ctx, cache, r.Target(), img)
	if err != nil {
		return nil, err
	}
	return i, i.AddRecipe(r)
}

// areHere says whether the content of all images is on this machine.
func areHere(cache layer.Cache, images []v1.Image) bool {
	return !slices.ContainsFunc(images, func(img v1.Image) bool {
		m, err := img.Manifest()
		return err != nil ||
			slices.ContainsFunc(
				m.Layers,
				func(d v1.Descriptor) bool { return !cache.Store.Has(d.Digest.Hex) },
			)
	})
}

// fillFromRegistry fills all documents with what is attached to the artifact in a registry; false
// if one is missing there.
func (r BuildDocuments) fillFromRegistry(ctx context.Context, top v1.Hash, all []Document) bool {
	have := r.Finished.Attached(ctx, top, all[0].Subjects[0])
	for n, d := range all {
		all[n].Body = r.attached(have, d)
		if all[n].Body == nil {
			return false
		}
	}
	return true
}

// attached returns the content of a document that is attached to its subject: with its key, its
// subject in it, and attested by one of the finder's keys if that has keys. What cannot be read
// counts as missing.
func (r BuildDocuments) attached(have []oci.Attachment, d Document) []byte {
	about := d.Subjects[0]
	subject := signature.Subjects([]oci.Document{{Desc: v1.Descriptor{Digest: about}}}, have)[0]
	var found [][]byte
	for _, a := range subject.Attachments {
		desc := a.Manifest.Desc
		if a.Tag != "" || desc.ArtifactType != d.Referrer ||
			desc.Annotations[recipe.LabelKey] != d.Key {
			continue
		}
		for _, b := range a.Blobs {
			raw, _ := oci.ReadBlob(b, maxDocument) // what cannot be read is no JSON
			if string(b.Desc.MediaType) == d.Referrer && json.Valid(raw) &&
				bytes.Contains(raw, []byte(about.Hex)) {
				found = append(found, raw)
			}
		}
	}
	if !r.Finished.Verifies() {
		return append(found, nil)[0]
	}
	reports, err := signature.Verify([]signature.Subject{subject}, r.Finished.Keys)
	if err != nil {
		return nil
	}
	for _, f := range reports[0].Attestations {
		if f.Err != nil || f.Predicate.Type != d.Type {
			continue
		}
		for _, body := range found {
			if bytes.Equal(compact(f.Predicate.Body), compact(body)) {
				return body
			}
		}
	}
	return nil
}

// compact writes JSON without spaces, and with HTML's escapes.
func compact(raw []byte) []byte {
	text, _ := json.Marshal(json.RawMessage(raw)) // it is valid
	return text
}
