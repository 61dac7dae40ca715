package kernelmodules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/sign"
)

// ErrNoModules means that an image has no precompiled modules, so that there is nothing to sign.
var ErrNoModules = errors.New("the image has no modules that were compiled ahead of time")

// SignImage returns the image with signatures on its precompiled modules; the signatures that they
// had are replaced. Layers without modules keep their digests, except the description, which names
// the signed layers; of the configuration, only the label of the signer changes. Every signature is
// checked against the certificate before the image is returned: see kmod/sign for the errors, and
// ErrNoModules.
func SignImage(
	ctx context.Context,
	layers layer.Cache,
	name string,
	img v1.Image,
	s Signatures,
) (v1.Image, error) {
	signed, err := signImage(ctx, layers, name, img, s)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	return signed, nil
}

func signImage(
	ctx context.Context,
	cache layer.Cache,
	name string,
	img v1.Image,
	s Signatures,
) (v1.Image, error) {
	layers, err := moduleLayers(ctx, cache.Store, img)
	if err != nil {
		return nil, err
	}
	info, err := describedLayers(ctx, cache.Store, layers)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	of := layer.Spec{
		Target: name + " " + config.Architecture,
		Time:   time.Unix(max(config.Created.Unix(), 0), 0).UTC(),
	}
	for i, l := range layers {
		if !l.modules {
			continue
		}
		layers[i].Layer, err = resigned(ctx, cache, of, l.Layer, s)
		if err != nil {
			return nil, err
		}
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	signer := sign.Fingerprint(s.Certificate.Raw)
	config.Config.Labels[recipe.LabelSigner] = signer
	if info != nil {
		err = redescribe(ctx, cache, of, layers, *info, signer)
		if err != nil {
			return nil, err
		}
	}
	return rebuilt(img, config, layers, signer)
}

// resigned is a layer with other signatures. It is kept in the cache by what was signed, by whom,
// and with which signatures where they came from elsewhere.
func resigned(
	ctx context.Context,
	layers layer.Cache,
	of layer.Spec,
	l v1.Layer,
	s Signatures,
) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	of.Key = layer.Key(
		"resigned-modules",
		digest.String(),
		sign.Fingerprint(s.Certificate.Raw),
		s.made,
	)
	of.Compression, err = compressionOf(l)
	if err != nil {
		return nil, err
	}
	of.Name = "modules " + digest.Hex[:12] + ", signed"
	return layers.Make(
		ctx,
		of,
		func(ctx context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
			tree := rootfs.New(spool, nil)
			return tree, s.Sign(ctx, layers.Store, l, tree)
		},
	)
}

func compressionOf(l v1.Layer) (recipe.Compression, error) {
	mt, err := l.MediaType()
	if err == nil && mt == types.OCILayerZStd {
		return recipe.Zstd, nil
	}
	return recipe.Gzip, err
}

// examinedLayer is a layer, and what it has.
type examinedLayer struct {
	v1.Layer
	modules   bool
	described bool // it is the description, which names the others
}

// moduleLayers are the image's layers; at least one has modules when there is no error. Layers of
// this project say in the history what they are; all others are read. Modules that the distribution
// signed keep its signature: they are an error.
func moduleLayers(ctx context.Context, store *fetch.Store, img v1.Image) ([]examinedLayer, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	from := config.Config.Labels[recipe.LabelModulePackages]
	if from != "" {
		return nil, failure.Errorf(failure.Usage, "its modules are of %s, signed by the distribution with a "+
			"key that its kernels have built in, and another signature would take the place of that one: "+
			"use the image as it is, or build it without --modules-from distribution to sign with a key of yours", from)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	histories, _ := layer.Histories(config, len(layers))
	found := false
	out := make([]examinedLayer, 0, len(layers))
	for n, l := range layers {
		e := examinedLayer{Layer: l}
		by := histories[n].CreatedBy
		if !strings.HasPrefix(by, "driver-build ") || strings.Contains(by, ": modules ") {
			e.modules, err = hasModules(ctx, store, l)
			if err != nil {
				return nil, fmt.Errorf("layer %d of %d: %w", n+1, len(layers), err)
			}
		}
		found = found || e.modules
		out = append(out, e)
	}
	if !found {
		return nil, ErrNoModules
	}
	return out, nil
}

// hasModules reads a layer. A layer of this project that has modules has nothing else. Of any other
// layer with modules no signed copy can be made, because the modules would have to be separated
// from the rest.
func hasModules(ctx context.Context, store *fetch.Store, l v1.Layer) (modules bool, err error) {
	other := ""
	err = readLayer(
		ctx,
		store,
		l,
		func(string) bool { return false },
		func(tree *rootfs.Tree) error {
			for _, e := range tree.All() {
				switch {
				case e.Kind == rootfs.Dir:
				case e.Kind == rootfs.File && inSet(e.Path):
					modules = true
				case e.Kind == rootfs.File && recipe.InFolder(e.Path, recipe.KMMDir): // checkKMM finds those that no set has
				default:
					other = e.Path
				}
			}
			return nil
		},
	)
	if modules && other != "" {
		return false, fmt.Errorf(
			"has modules and other files too (%s): the image was changed after driver-build made it; build it again",
			other,
		)
	}
	return modules, err
}

// rebuilt is an image of other layers, with a configuration and with what its manifest said.
func rebuilt(
	img v1.Image,
	config *v1.ConfigFile,
	layers []examinedLayer,
	signer string,
) (v1.Image, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	var adds []mutate.Addendum
	for i, l := range layers {
		mt, err := layer.OCIMediaType(l)
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{
			Layer:       l.Layer,
			MediaType:   mt,
			Annotations: l.annotations(manifest, i, signer),
		})
	}
	annotations := maps.Clone(manifest.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[recipe.LabelSigner] = signer
	return description.Image(config, adds, annotations)
}
