package kernelmodules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/sign"
)

// ErrNoModules means that an image has no precompiled modules, so that there is nothing to sign.
var ErrNoModules = errors.New("the image has no modules that were compiled ahead of time")

// SignImage returns the image with signatures on its precompiled modules; the signatures that they
// had are replaced. Layers without modules keep their digests, except the list of files, which gets
// the signed modules; of the configuration, only the labels of signer and list change. Every
// signature is checked against the certificate before the image is returned: see kmod/sign for the
// errors, and ErrNoModules.
func SignImage(
	ctx context.Context,
	layers layer.Cache,
	name string,
	img v1.Image,
	s Signatures,
) (v1.Image, error) {
	examined, err := moduleLayers(ctx, layers.Store, img)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	of := layer.Spec{
		Target: name + " " + config.Architecture,
		Time:   time.Unix(max(config.Created.Unix(), 0), 0).UTC(),
	}
	for i, l := range examined {
		if !l.modules {
			continue
		}
		examined[i].Layer, err = resigned(ctx, layers, of, l.Layer, s)
		if err != nil {
			return nil, fmt.Errorf("sign %s: %w", name, err)
		}
	}
	labels := map[string]string{recipe.LabelSigner: sign.Fingerprint(s.Certificate.Raw)}
	if want := config.Config.Labels[recipe.LabelFiles]; want != "" {
		labels[recipe.LabelFiles], err = relist(
			ctx,
			layers,
			of,
			examined,
			want,
			labels[recipe.LabelSigner],
		)
		if err != nil {
			return nil, fmt.Errorf("sign %s: %w", name, err)
		}
	}
	if err := annotate(ctx, layers, img, examined, labels); err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	signed, err := rebuilt(img, config, examined, labels)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	return signed, nil
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
	modules     bool
	list        bool              // of the image's files
	annotations map[string]string // in the manifest
}

// moduleLayers are the image's layers; at least one has modules when there is no error. Layers of
// this project say in the history what they are; all others are read.
func moduleLayers(ctx context.Context, store *fetch.Store, img v1.Image) ([]examinedLayer, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
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
		e.list = strings.HasPrefix(by, "driver-build ") &&
			strings.HasSuffix(by, ": "+inventory.LayerName)
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
	err = withTree(
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

// rebuilt is an image of other layers with the configuration and history that it had.
func rebuilt(img v1.Image, config *v1.ConfigFile, layers []examinedLayer, labels map[string]string) (v1.Image, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.RootFS.DiffIDs = nil
	var adds []mutate.Addendum
	for _, l := range layers {
		mt, err := layer.OCIMediaType(l)
		if err != nil {
			return nil, err
		}
		id, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, id)
		adds = append(adds, mutate.Addendum{Layer: l.Layer, MediaType: mt, Annotations: l.annotations})
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err = mutate.Append(made, adds...)
	if err != nil {
		return nil, err
	}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, labels)
	made, err = mutate.ConfigFile(made, config)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(manifest.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, labels)
	return mutate.Annotations(made, annotations).(v1.Image), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}
