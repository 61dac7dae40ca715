package kernelmodules

import (
	"context"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

// SignedKey is the key of a layer with signed modules: that of the layer without signatures, and who signed.
func SignedKey(unsigned, fingerprint string) (string, error) {
	return layer.Key("signed-modules", unsigned, fingerprint)
}

// annotate says of each layer what the manifest said of it before. A layer with signed modules gets the key
// that a build with the same signer gives it. If another key had signed the modules before, the layer without
// signatures is not known any more, and no build finds what replaces it.
func annotate(ctx context.Context, cache layer.Cache, img v1.Image, all []examinedLayer, labels map[string]string) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	for i, l := range all {
		before := manifest.Layers[i].Annotations
		key := before[recipe.LabelKey]
		switch {
		case key == "" || !l.modules && !l.list:
			all[i].annotations = maps.Clone(before)
		case l.list: // its key is not that of a build
			all[i].annotations = map[string]string{recipe.LabelFiles: labels[recipe.LabelFiles]}
		default:
			if all[i].annotations, err = cache.Annotations(ctx, l.Layer); err != nil {
				return err
			}
			switch signer := manifest.Annotations[recipe.LabelSigner]; signer {
			case labels[recipe.LabelSigner]:
			case "":
				if key, err = SignedKey(key, labels[recipe.LabelSigner]); err != nil {
					return err
				}
			default:
				delete(all[i].annotations, recipe.LabelKey)
				continue
			}
			all[i].annotations[recipe.LabelKey] = key
		}
	}
	return nil
}
