package layer

import (
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Histories are those of the layers of an image. Where the configuration does not have one for each they are
// empty, and known is false.
func Histories(config *v1.ConfigFile, layers int) (all []v1.History, known bool) {
	all = slices.DeleteFunc(slices.Clone(config.History), func(h v1.History) bool { return h.EmptyLayer })
	if len(all) != layers {
		return make([]v1.History, layers), false
	}
	return all, true
}

// OCIMediaType is the type of the same bytes in an OCI image.
func OCIMediaType(l v1.Layer) (types.MediaType, error) {
	mt, err := l.MediaType()
	if err != nil {
		return "", err
	}
	switch mt {
	case types.DockerLayer:
		return types.OCILayer, nil
	case types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer, nil
	default:
		return mt, nil
	}
}
