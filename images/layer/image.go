package layer

import (
	"cmp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Histories are those of the layers of an image. Where the configuration does not have one for each
// they are empty, and known is false.
func Histories(config *v1.ConfigFile, layers int) (all []v1.History, known bool) {
	all = slices.DeleteFunc(
		slices.Clone(config.History),
		func(h v1.History) bool { return h.EmptyLayer },
	)
	if len(all) != layers {
		return make([]v1.History, layers), false
	}
	return all, true
}

// ociTypes are OCI's types of layers, by Docker's.
var ociTypes = map[types.MediaType]types.MediaType{
	types.DockerLayer:             types.OCILayer,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
}

// OCIMediaType is the type of the same bytes in an OCI image.
func OCIMediaType(l v1.Layer) (types.MediaType, error) {
	mt, err := l.MediaType()
	return cmp.Or(ociTypes[mt], mt), err
}
