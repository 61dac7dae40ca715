package images

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/rootfs"
)

// ErrNoModules says that an image has no modules that were compiled ahead of time: there is nothing to sign.
var ErrNoModules = errors.New("the image has no modules that were compiled ahead of time")

// SignImage returns the image with signatures at its modules that were compiled ahead of time; those that they had are
// replaced. Layers without modules keep their digests; of the configuration, only the signer's label changes. Every signature
// is checked against the certificate before the image is returned: see kmod/sign for the errors, and ErrNoModules.
func (b *Builder) SignImage(ctx context.Context, name string, img v1.Image, s Signatures) (v1.Image, error) {
	layers, err := moduleLayers(ctx, img)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	// What a layer needs to know of a recipe.
	r := &Recipe{Tag: name, Arch: config.Architecture, Epoch: max(config.Created.Unix(), 0)}
	for i, l := range layers {
		if !l.modules {
			continue
		}
		if layers[i].Layer, err = b.resignedLayer(ctx, r, l.Layer, s); err != nil {
			return nil, fmt.Errorf("sign %s: %w", name, err)
		}
	}
	signed, err := rebuilt(img, config, layers, fingerprint(s.Certificate))
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	return signed, nil
}

// resignedLayer is kept in the cache by what was signed, by whom, and with which signatures where they came from elsewhere.
func (b *Builder) resignedLayer(ctx context.Context, r *Recipe, l v1.Layer, s Signatures) (v1.Layer, error) {
	digest, err := l.Digest()
	if err != nil {
		return nil, err
	}
	k, err := key("resigned-modules", digest.String(), fingerprint(s.Certificate), s.made)
	if err != nil {
		return nil, err
	}
	mt, err := l.MediaType()
	if err != nil {
		return nil, err
	}
	of := *r
	if of.Compression = Gzip; mt == types.OCILayerZStd {
		of.Compression = Zstd
	}
	return b.layer(ctx, &of, "modules "+digest.Hex[:12]+", signed", k, func(ctx context.Context, spool *rootfs.Spool, _ *Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		return tree, b.signSets(ctx, l, tree, s)
	})
}

// examinedLayer is a layer, and whether it has modules.
type examinedLayer struct {
	v1.Layer
	modules bool
}

// moduleLayers are the image's layers; at least one has modules when there is no error. Ours say in the history what they are;
// all others are looked through.
func moduleLayers(ctx context.Context, img v1.Image) ([]examinedLayer, error) {
	i, err := inspectManifest(img)
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	found := false
	out := make([]examinedLayer, 0, len(layers))
	for n, l := range layers {
		e := examinedLayer{Layer: l}
		by := i.Layers[n].CreatedBy
		if !strings.HasPrefix(by, "driver-build ") || strings.Contains(by, ": modules ") {
			if e.modules, err = hasModules(ctx, l); err != nil {
				return nil, fmt.Errorf("layer %s: %w", i.Layers[n].Digest, err)
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

// hasModules looks through a layer. One with modules has nothing else when it is ours; of another, whose modules would have to be taken
// apart from the rest, no signed copy can be made.
func hasModules(ctx context.Context, l v1.Layer) (modules bool, err error) {
	r, err := l.Uncompressed()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	other := ""
	buffered := bufio.NewReaderSize(cancelled(ctx, r), 256<<10)
	for tr := tar.NewReader(buffered); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		name, err := rootfs.Clean(h.Name)
		if err != nil {
			return false, err
		}
		_, _, ok := moduleOf(name)
		switch {
		case h.Typeflag == tar.TypeDir:
		case ok && h.Typeflag == tar.TypeReg:
			modules = true
		default:
			other = name
		}
	}
	if modules && other != "" {
		return false, fmt.Errorf("has modules and other files too (%s): the image was changed after driver-build made it; build it again", other)
	}
	_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
	return modules, err
}

// rebuilt is an image of other layers with the configuration and history that it had.
func rebuilt(img v1.Image, config *v1.ConfigFile, layers []examinedLayer, signer string) (v1.Image, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.RootFS.DiffIDs = nil
	var adds []mutate.Addendum
	for _, l := range layers {
		mt, err := ociMediaType(l)
		if err != nil {
			return nil, err
		}
		id, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, id)
		adds = append(adds, mutate.Addendum{Layer: l.Layer, MediaType: mt})
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if made, err = mutate.Append(made, adds...); err != nil {
		return nil, err
	}
	label := map[string]string{LabelSigner: signer}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, label)
	if made, err = mutate.ConfigFile(made, config); err != nil {
		return nil, err
	}
	annotations := maps.Clone(manifest.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, label)
	return mutate.Annotations(made, annotations).(v1.Image), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}
