package verify

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

// Summarize returns what manifest, config and labels of an image say. It reads no layer, so what it returns
// is what the image claims. Driver and system of an image without labels of this project are empty.
func Summarize(img v1.Image) (*Inspection, error) {
	i, err := inspectManifest(img)
	if err != nil {
		return nil, err
	}
	i.Driver, i.System = i.Labels[recipe.LabelDriver], i.Labels[recipe.LabelSystem]
	i.Flavours = list(i.Labels[recipe.LabelFlavours])
	return i, nil
}

// inspectManifest returns what manifest and config say, and of the labels what no file of the image shows.
func inspectManifest(img v1.Image) (*Inspection, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	c := config.Config
	i := &Inspection{
		Schema: InspectionSchema, Digest: digest.String(), Arch: config.Architecture, Env: c.Env, Command: append(slices.Clone(c.Entrypoint), c.Cmd...),
		Labels: c.Labels, Profile: c.Labels[recipe.LabelProfile], Kernels: list(c.Labels[recipe.LabelKernels]), Signer: c.Labels[recipe.LabelSigner],
		VGPU: c.Labels[recipe.LabelVGPU], Content: c.Labels[recipe.LabelContent], Created: c.Labels[recipe.OCIPrefix+"created"], Base: c.Labels[recipe.OCIPrefix+"base.name"],
	}
	if d := c.Labels[recipe.OCIPrefix+"base.digest"]; d != "" {
		i.Base = strings.TrimPrefix(i.Base+"@"+d, "@") // a base from a layout or an archive can be without a name
	}
	histories, _ := layer.Histories(config, len(layers))
	for n, l := range layers {
		d, err := l.Digest()
		if err != nil {
			return nil, err
		}
		size, err := l.Size()
		if err != nil {
			return nil, err
		}
		i.Layers = append(i.Layers, LayerInfo{Digest: d.String(), Size: size, CreatedBy: histories[n].CreatedBy})
		i.Size += size
	}
	return i, nil
}

// list splits the value of a label at its commas.
func list(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
