package attestation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/layercache"
	"github.com/driver-container/driver-container/images/lockfile"
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

	// Finished finds what earlier builds attached to the same image; nil: documents are made from the image.
	Finished *layercache.Finder
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
	return append(all, bills[min(len(images), len(bills)):]...), nil
}

func (r Record) run() (provenance.Run, error) {
	run := provenance.Run{BuilderID: r.CI.BuilderID, InvocationID: r.CI.InvocationID, GoVersion: runtime.Version()}
	if r.CI.Config.URI != "" {
		run.Configs = []provenance.Resource{r.CI.Config}
	}
	if r.LockFile != "" && r.Provenance {
		raw, err := bounded.File(r.LockFile, lockfile.MaxSize)
		if err != nil {
			return run, fmt.Errorf("read the lock for the provenance: %w", err)
		}
		sum := sha256.Sum256(raw)
		run.Lock = &provenance.Resource{Name: filepath.Base(r.LockFile), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}
	}
	return run, nil
}
