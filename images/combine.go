package images

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
)

// Combine makes one artifact of the images of one tag: the image itself, or an index of them, one
// an architecture.
func Combine(built []v1.Image) (oci.Artifact, error) {
	if len(built) == 1 {
		return built[0], nil
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var annotations map[string]string
	for _, img := range built {
		config, err := img.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("make the index: %w", err)
		}
		annotations = config.Config.Labels
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant},
		}})
	}
	shared := map[string]string{}
	for name, value := range annotations {
		// another one for each architecture
		if name != recipe.OCIPrefix+"base.digest" && name != recipe.LabelContent {
			shared[name] = value
		}
	}
	return mutate.Annotations(index, shared).(v1.ImageIndex), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}
