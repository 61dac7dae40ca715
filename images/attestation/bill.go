package attestation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
)

// bills makes the SBOM of each image and, of several images, that of their index. An SBOM is made from the
// content of its image. If that is not on this machine, because every layer was found in a registry, bills
// takes what an earlier build made from the same.
func (r Record) bills(ctx context.Context, cache layer.Cache, top v1.Hash, images []v1.Image, recipes []*recipe.Recipe) ([]Document,
	error) {
	all, err := r.emptyBills(top, images, recipes)
	if err != nil {
		return nil, err
	}
	if r.Finished != nil && !areHere(cache, images) && r.fillFromRegistry(ctx, top, all) {
		return all, nil
	}
	whole := r.model(recipes)
	for n, img := range images {
		i, err := documents.ReadImage(ctx, cache, recipes[n].Target(), img)
		if err == nil {
			err = i.AddRecipe(recipes[n])
		}
		if err != nil {
			return nil, fmt.Errorf("make the SBOM of %s: %w", recipes[n].Target(), err)
		}
		whole.Images = append(whole.Images, i)
		one := r.model(recipes)
		one.Images = []*documents.Image{i}
		if all[n].Body, err = documents.SBOM(one, r.SBOM); err != nil {
			return nil, err
		}
	}
	if len(images) > 1 {
		whole.Index = top.String()
		all[len(images)].Body, err = documents.SBOM(whole, r.SBOM)
	}
	return all, err
}

// model is that of a document without images.
func (r Record) model(recipes []*recipe.Recipe) documents.Model {
	m := documents.Model{Tool: recipes[0].Builder}
	if r.Repository != "" {
		m.Name = path.Base(r.Repository)
	}
	return m
}

// emptyBills are the documents without their content.
func (r Record) emptyBills(top v1.Hash, images []v1.Image, recipes []*recipe.Recipe) (all []Document, err error) {
	var digests []v1.Hash
	var public []*recipe.Recipe
	add := func(about v1.Hash, digests []v1.Hash, public []*recipe.Recipe) error {
		key, err := layer.Key("sbom", documents.SBOMMethod, r.SBOM, r.model(recipes), about, digests, public)
		all = append(all, Document{Subjects: []v1.Hash{about}, Type: r.SBOM.PredicateType(), Referrer: r.SBOM.MediaType(), Key: key})
		return err
	}
	for n, img := range images {
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		digests, public = append(digests, digest), append(public, recipes[n].Public())
		if err := add(digest, digests[n:], public[n:]); err != nil {
			return nil, err
		}
	}
	if len(images) > 1 {
		err = add(top, digests, public)
	}
	return all, err
}

// areHere says whether the content of all images is on this machine.
func areHere(cache layer.Cache, images []v1.Image) bool {
	for _, img := range images {
		m, err := img.Manifest()
		if err != nil {
			return false
		}
		for _, d := range m.Layers {
			if !cache.Store.Has(d.Digest.Hex) {
				return false
			}
		}
	}
	return true
}

// fillFromRegistry fills all documents with what is attached to the artifact in a registry; false if one is
// missing there.
func (r Record) fillFromRegistry(ctx context.Context, top v1.Hash, all []Document) bool {
	have := r.Finished.Attached(ctx, top, all[0].Subjects[0])
	for n, d := range all {
		if all[n].Body = r.attached(have, d); all[n].Body == nil {
			return false
		}
	}
	return true
}

// attached returns the content of a document that is attached to its subject: with its key, its subject in
// it, and attested by one of the finder's keys if that has keys. What cannot be read counts as missing.
func (r Record) attached(have []oci.Attachment, d Document) []byte {
	subject := signature.Subject{Descriptor: v1.Descriptor{Digest: d.Subjects[0]}}
	var found [][]byte
	for _, a := range have {
		if a.Subject != d.Subjects[0] {
			continue
		}
		subject.Attachments = append(subject.Attachments, a)
		if a.Tag != "" || a.Manifest.Desc.ArtifactType != d.Referrer || a.Manifest.Desc.Annotations[recipe.LabelKey] != d.Key {
			continue
		}
		for _, b := range a.Blobs {
			raw, err := oci.ReadBlob(b, maxDocument)
			if err == nil && string(b.Desc.MediaType) == d.Referrer && json.Valid(raw) && bytes.Contains(raw, []byte(d.Subjects[0].Hex)) {
				found = append(found, raw)
			}
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case !r.Finished.Verifies():
		return found[0]
	}
	reports, err := signature.Verify([]signature.Subject{subject}, r.Finished.Keys)
	if err != nil {
		return nil
	}
	for _, f := range reports[0].Attestations {
		for _, body := range found {
			if f.Err == nil && f.Predicate.Type == d.Type && bytes.Equal(compact(f.Predicate.Body), compact(body)) {
				return body
			}
		}
	}
	return nil
}

// compact writes JSON in one form, whatever its spaces and escapes.
func compact(raw []byte) []byte {
	var plain, escaped bytes.Buffer
	if json.Compact(&plain, raw) != nil {
		return nil
	}
	json.HTMLEscape(&escaped, plain.Bytes())
	return escaped.Bytes()
}
