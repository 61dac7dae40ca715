package attestation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
)

// OpenArchs opens an image for each architecture that is wanted, or, where none is named, for each that
// it is there for.
func OpenArchs(
	ctx context.Context,
	client *registry.Client,
	ref string,
	archs []string,
) (map[string]v1.Image, error) {
	if len(archs) == 0 {
		archs = []string{""}
	}
	all := map[string]v1.Image{}
	for _, arch := range archs {
		_, found, err := documents.Open(ctx, client, ref, arch)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			config, err := f.Image.ConfigFile()
			if err != nil {
				return nil, fmt.Errorf("open %s: %w", ref, err)
			}
			all[config.Architecture] = f.Image
		}
	}
	return all, nil
}

// SignModules signs the modules in the images of all architectures; ref names them in messages.
func SignModules(
	ctx context.Context,
	layers layer.Cache,
	ref string,
	all map[string]v1.Image,
	how kernelmodules.Signatures,
) ([]v1.Image, error) {
	signed := make([]v1.Image, 0, len(all))
	for _, arch := range matrix.Archs() {
		if all[arch] == nil {
			continue
		}
		img, err := kernelmodules.SignImage(ctx, layers, ref+" "+arch, all[arch], how)
		if err != nil {
			return nil, err
		}
		signed = append(signed, img)
	}
	return signed, nil
}

// BuiltTags are the tags that an image was built with, as its labels say.
func BuiltTags(img v1.Image) ([]string, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	tag := config.Config.Labels["org.opencontainers.image.version"]
	if tag == "" {
		return nil, failure.Errorf(
			failure.Usage,
			"the image does not say which tag it was built with: give --tag",
		)
	}
	return append(
		[]string{tag},
		strings.FieldsFunc(
			config.Config.Labels[recipe.LabelAliases],
			func(r rune) bool { return r == ',' },
		)...), nil
}

// HasZstd says whether an image has layers that are compressed with zstd.
func HasZstd(all []v1.Image) (bool, error) {
	for _, img := range all {
		m, err := img.Manifest()
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(
			m.Layers,
			func(l v1.Descriptor) bool { return strings.HasSuffix(string(l.MediaType), "+zstd") },
		) {
			return true, nil
		}
	}
	return false, nil
}
