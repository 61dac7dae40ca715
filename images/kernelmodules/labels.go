package kernelmodules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/strictjson"
)

// SignedKey is the key of a layer with signed modules: that of the layer without signatures, and
// who signed.
func SignedKey(unsigned, fingerprint string) string {
	return layer.Key("signed-modules", unsigned, fingerprint)
}

// annotations are what the manifest says of a layer. A layer with signed modules gets the key that a
// build with the same signer gives it. If another key had signed the modules before, the layer
// without signatures is not known any more, and no build finds what replaces it.
func (l examinedLayer) annotations(before *v1.Manifest, i int, signer string) map[string]string {
	all := maps.Clone(before.Layers[i].Annotations)
	key := all[recipe.LabelKey]
	switch {
	case key == "" || !l.modules && !l.described:
	case l.described:
		return layer.Keyed(l.Layer, nil)
	case before.Annotations[recipe.LabelSigner] == "":
		all[recipe.LabelKey] = SignedKey(key, signer)
	case before.Annotations[recipe.LabelSigner] != signer:
		delete(all, recipe.LabelKey)
	}
	return all
}

// errChanged is the error for an image that is not as driver-build made it: it does not become right
// by signing.
var errChanged = failure.New(
	failure.Content,
	"the image was changed after driver-build made it: build it again",
)

// describedLayers reads the description of the image, which the last layer has, and compares the
// layers with it. nil: an older version made the image, or another program.
func describedLayers(
	ctx context.Context,
	store *fetch.Store,
	layers []examinedLayer,
) (*driverinfo.Description, error) {
	last := len(layers) - 1
	info, err := description.Read(ctx, store, layers[last])
	if errors.Is(err, description.ErrOther) || err == nil && len(info.Layers) == 0 {
		return nil, nil //nolint:nilnil // images of others have none
	}
	if err != nil {
		return nil, err
	}
	layers[last].described = true
	if len(info.Layers) != last {
		return nil, fmt.Errorf("%w: it has %d layers, of which the description names %d",
			errChanged, last+1, len(info.Layers))
	}
	for i, want := range info.Layers {
		id, err := layers[i].DiffID()
		if err != nil {
			return nil, err
		}
		if id.String() != want {
			return nil, fmt.Errorf("%w: layer %d is %s, the description says %s",
				errChanged, i+1, id, want)
		}
	}
	return &info, nil
}

// redescribe replaces the description by one that names the signed layers and their signer. All else
// of the configuration stays as it was recorded.
func redescribe(
	ctx context.Context,
	cache layer.Cache,
	of layer.Spec,
	layers []examinedLayer,
	info driverinfo.Description,
	signer string,
) error {
	text, err := json.Marshal(info.Configuration)
	if err != nil {
		return fmt.Errorf("the recorded configuration: %w", err)
	}
	config, err := strictjson.Decode[v1.ConfigFile](text)
	if err != nil {
		return fmt.Errorf("the recorded configuration: %w", err)
	}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels[recipe.LabelSigner] = signer
	last := len(layers) - 1
	below := make([]v1.Layer, last)
	for i := range below {
		below[i] = layers[i].Layer
	}
	err = description.Record(&info, below, &config)
	if err != nil {
		return err
	}
	of.Compression, err = compressionOf(layers[last])
	if err != nil {
		return err
	}
	layers[last].Layer, err = description.Layer(ctx, cache, of, info)
	return err
}
