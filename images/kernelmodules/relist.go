package kernelmodules

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

// relist replaces the list of the image's files by one that has the signed modules and their signer, and returns its digest.
// All other files stay as they were listed: a file that was changed after the build does not become right by
// signing. want is the digest of the list that the image has.
func relist(ctx context.Context, layers layer.Cache, of layer.Spec, examined []examinedLayer, want, signer string) (string, error) {
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
		return "", errors.New("the image names a list of its files and has no layer with it: the image was changed after driver-build made it; build it again")
	}
	list, got, err := inventory.FromLayer(ctx, layers, examined[at])
	if got != "" && got != want {
		return "", fmt.Errorf("the list of its files is %s, its label says %s: the image was changed after driver-build made it; build it again", got, want)
	}
	if err != nil {
		return "", err
	}
	modules, err := inventory.Of(ctx, layers, signed)
	if err != nil {
		return "", err
	}
	of.Name = inventory.LayerName
	if of.Compression, err = compressionOf(examined[at]); err != nil {
		return "", err
	}
	if list.Config != nil && list.Config.Config.Labels != nil {
		list.Config.Config.Labels[recipe.LabelSigner] = signer
	}
	list.Files = inventory.Replace(inventory.Replace(list.Files, recipe.ModulesDir, modules), recipe.KMMDir, modules)
	made, digest, err := inventory.ListLayer(ctx, layers, of, list)
	examined[at].Layer = made
	return digest, err
}
