package attestation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/provenance"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/sbom"
)

// Record says which documents a build gives to its images.
type Record struct {
	SBOM       sbom.Format // "": none
	Provenance bool
	CI         provenance.CI // who ran the build; zero: driver-build itself
	LockFile   string        // that the build went by; "": none
	Repository string        // REGISTRY/PATH of the images; "": not known
}

// Empty says whether there are no documents.
func (r Record) Empty() bool { return r.SBOM == "" && !r.Provenance }

// Documents makes the documents of an artifact: those of each image, and those of the index if there is one,
// because verifiers ask for what the tag names. Each recipe is that of the image at its position. Equal
// builds give equal documents.
func (r Record) Documents(ctx context.Context, cache layer.Cache, t oci.Artifact, images []v1.Image, recipes []*recipe.Recipe) (all []Document, err error) {
	top, err := t.Digest()
	if err != nil {
		return nil, err
	}
	run, err := r.run()
	if err != nil {
		return nil, err
	}
	whole := sbom.Model{Index: top.String(), Tool: recipes[0].Builder}
	if r.Repository != "" {
		whole.Name = path.Base(r.Repository)
	}
	for n, img := range images {
		digest, err := img.Digest()
		if err != nil {
			return nil, err
		}
		if r.SBOM != "" {
			i, err := sbom.Read(ctx, cache, recipes[n].Target(), img)
			if err == nil {
				err = i.AddRecipe(recipes[n])
			}
			if err != nil {
				return nil, fmt.Errorf("make the SBOM of %s: %w", recipes[n].Target(), err)
			}
			whole.Images = append(whole.Images, i)
			d, err := r.bill(sbom.Model{Name: whole.Name, Tool: whole.Tool, Images: []*sbom.Image{i}}, digest)
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		if r.Provenance {
			body, err := provenance.New(recipes[n], run).Encode()
			if err != nil {
				return nil, err
			}
			d := Document{Subjects: []v1.Hash{digest}, Type: provenance.PredicateType, Body: body}
			if digest != top {
				d.Subjects = append(d.Subjects, top)
			}
			all = append(all, d)
		}
	}
	if r.SBOM != "" && len(images) > 1 {
		d, err := r.bill(whole, top)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func (r Record) bill(m sbom.Model, about v1.Hash) (Document, error) {
	body, err := sbom.Document(m, r.SBOM)
	return Document{Subjects: []v1.Hash{about}, Type: r.SBOM.PredicateType(), Body: body, Referrer: r.SBOM.MediaType()}, err
}

func (r Record) run() (provenance.Run, error) {
	run := provenance.Run{BuilderID: r.CI.BuilderID, InvocationID: r.CI.InvocationID, GoVersion: runtime.Version()}
	if r.CI.Config.URI != "" {
		run.Configs = []provenance.Resource{r.CI.Config}
	}
	if r.LockFile != "" && r.Provenance {
		raw, err := os.ReadFile(r.LockFile)
		if err != nil {
			return run, fmt.Errorf("read the lock for the provenance: %w", err)
		}
		sum := sha256.Sum256(raw)
		run.Lock = &provenance.Resource{Name: filepath.Base(r.LockFile), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}
	}
	return run, nil
}
