package attestation

import (
	"context"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// Record says which documents a build gives to its images.
type Record struct {
	SBOM       documents.Format // "": none
	Provenance bool
	Run        documents.Run // who runs the build, by which lock
	Repository string        // REGISTRY/PATH of the images; "": not known

	// Finished finds what earlier builds attached to the same image; nil: documents are made from the image.
	Finished *layer.Finder
}

// Empty says whether there are no documents.
func (r Record) Empty() bool { return r.SBOM == "" && !r.Provenance }

// Documents makes the documents of an artifact: those of each image, and those of the index if there is one,
// because verifiers ask for what the tag names. Each recipe is that of the image at its position. Equal
// builds give equal documents.
func (r Record) Documents(ctx context.Context, cache layer.Cache, t oci.Artifact, images []v1.Image,
	recipes []*recipe.Recipe) (all []Document, err error) {
	top, err := t.Digest()
	if err != nil {
		return nil, err
	}
	r.Run.GoVersion = runtime.Version()
	var bills []Document
	if r.SBOM != "" {
		if bills, err = r.bills(ctx, cache, top, images, recipes); err != nil {
			return nil, err
		}
	}
	for n, img := range images {
		if r.SBOM != "" {
			all = append(all, bills[n])
		}
		if !r.Provenance {
			continue
		}
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		body, err := documents.NewProvenance(recipes[n], r.Run).Encode()
		if err != nil {
			return nil, err
		}
		d := Document{Subjects: []v1.Hash{digest}, Type: documents.ProvenanceType, Body: body}
		if digest != top {
			d.Subjects = append(d.Subjects, top)
		}
		all = append(all, d)
	}
	return append(all, bills[min(len(images), len(bills)):]...), nil
}
