package bundle

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
)

// manifestOf returns the bundle's manifest for the bytes of its list.
func manifestOf(list []byte) (oci.Document, error) {
	layer := oci.BytesBlob(MediaType, list, map[string]string{TitleAnnotation: "bundle.json"})
	return oci.NewManifest(
		v1.Manifest{
			ArtifactType: MediaType,
			Config:       emptyConfig.Desc,
			Layers:       []v1.Descriptor{layer.Desc},
		},
	)
}

// index returns index.json: the bundle's manifest, its signature if it has one, the images,
// everything else.
func (l *List) index(manifest v1.Descriptor, signature *v1.Descriptor) ([]byte, error) {
	index := v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests:     []v1.Descriptor{manifest},
	}
	if signature != nil {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: signature.MediaType, Size: signature.Size, Digest: signature.Digest, ArtifactType: signature.ArtifactType,
			Annotations: map[string]string{oci.SubjectAnnotation: manifest.Digest.String()},
		})
	}
	taken := map[string]bool{}
	for _, i := range l.Items {
		if i.Kind.named() && len(i.Tags) > 0 {
			index.Manifests = append(index.Manifests, i.named(taken)...)
		}
	}
	for _, i := range l.Items {
		if !i.Kind.named() || len(i.Tags) == 0 {
			index.Manifests = append(index.Manifests, i.unnamed())
		}
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return nil, fmt.Errorf("make the bundle's index.json: %w", err)
	}
	if len(raw) > MaxDocument {
		return nil, errors.New(
			"make the bundle's index.json: it is larger than 4 MiB: make several bundles",
		)
	}
	return raw, nil
}

// named returns an entry for each tag. A tag that an image of another repository has is left to
// that one for the programs that look for nothing else.
func (i *Item) named(taken map[string]bool) []v1.Descriptor {
	var all []v1.Descriptor
	for _, t := range i.Tags {
		d := i.Descriptor
		d.Annotations = map[string]string{oci.ContainerdNameAnnotation: i.Repository + ":" + t}
		if !taken[t] {
			taken[t] = true
			d.Annotations[oci.RefNameAnnotation] = t
		}
		all = append(all, d)
	}
	return all
}

func (i *Item) unnamed() v1.Descriptor {
	d := i.Descriptor
	d.Annotations = map[string]string{oci.RepositoryAnnotation: i.Repository}
	if tag := i.tag(); tag != "" {
		d.Annotations[oci.TagAnnotation] = tag
	}
	if i.Subject != nil {
		d.Annotations[oci.SubjectAnnotation] = i.Subject.String()
	}
	return d
}
