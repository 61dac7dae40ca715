package kernelmodules

import (
	"context"
	"errors"
	"fmt"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

// SignedKey is the key of a layer with signed modules: that of the layer without signatures, and
// who signed.
func SignedKey(unsigned, fingerprint string) string {
	return layer.Key("signed-modules", unsigned, fingerprint)
}

// annotate says of each layer what the manifest said of it before. A layer with signed modules gets
// the key that a build with the same signer gives it. If another key had signed the modules before,
// the layer without signatures is not known any more, and no build finds what replaces it.
func annotate(
	ctx context.Context,
	cache layer.Cache,
	img v1.Image,
	all []examinedLayer,
	labels map[string]string,
) error {
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
			all[i].annotations, err = cache.Annotations(ctx, l.Layer)
			if err != nil {
				return err
			}
			switch signer := manifest.Annotations[recipe.LabelSigner]; signer {
			case labels[recipe.LabelSigner]:
			case "":
				key = SignedKey(key, labels[recipe.LabelSigner])
			default:
				delete(all[i].annotations, recipe.LabelKey)
				continue
			}
			all[i].annotations[recipe.LabelKey] = key
		}
	}
	return nil
}

// relist replaces the list of the image's files by one that has the signed modules and their
// signer, and returns its digest. All other files stay as they were listed: a file that was changed
// after the build does not become right by signing. want is the digest of the list that the image
// has.
func relist(
	ctx context.Context,
	layers layer.Cache,
	of layer.Spec,
	examined []examinedLayer,
	want, signer string,
) (string, error) {
	var signed []v1.Layer
	at := -1
	for i, l := range examined {
		if l.modules {
			signed = append(signed, l.Layer)
		}
		if l.list {
			at = i
		}
	}
	if at < 0 {
		return "", errors.New(
			"the image names a list of its files and has no layer with it: the image was changed after driver-build made it; build it again",
		)
	}
	list, got, err := inventory.FromLayer(ctx, layers, examined[at])
	if got != "" && got != want {
		return "", fmt.Errorf(
			"the list of its files is %s, its label says %s: the image was changed after driver-build made it; build it again",
			got,
			want,
		)
	}
	if err != nil {
		return "", err
	}
	modules, err := inventory.Of(ctx, layers, signed, progress.Quiet())
	if err != nil {
		return "", err
	}
	of.Name = inventory.LayerName
	of.Compression, err = compressionOf(examined[at])
	if err != nil {
		return "", err
	}
	if list.Config != nil && list.Config.Config.Labels != nil {
		list.Config.Config.Labels[recipe.LabelSigner] = signer
	}
	list.Files = inventory.Replace(
		inventory.Replace(list.Files, recipe.ModulesDir, modules),
		recipe.KMMDir,
		modules,
	)
	made, digest, err := inventory.ListLayer(ctx, layers, of, list)
	examined[at].Layer = made
	return digest, err
}
