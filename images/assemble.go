package images

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

type namedLayer struct {
	name  string
	layer v1.Layer
}

// assemble puts the layers on the base, and on them the one with the list of all files and the
// configuration, and writes the configuration. The result is an OCI image whatever format the base
// has; a Docker layer and an OCI layer are the same bytes under two media types. omitted says which
// companions the modules do not have.
func (b *Builder) assemble(ctx context.Context, r *recipe.Recipe, base v1.Image, layers []namedLayer, omitted string) (v1.Image, error) {
	baseConfig, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	adds, err := b.addenda(ctx, r, base, baseConfig, layers)
	if err != nil {
		return nil, err
	}
	list := mutate.Addendum{History: history(r, inventory.LayerName)}
	labels, err := r.Labels()
	if err != nil {
		return nil, err
	}
	if omitted != "" {
		labels[recipe.LabelOmitted] = omitted
	}
	config := &v1.ConfigFile{
		Architecture: r.Arch, OS: "linux", Variant: baseConfig.Variant, Created: v1.Time{Time: r.Time()},
		Config: v1.Config{Labels: labels},
	}
	if r.Profile != recipe.ModulesOnly {
		config.Config.Env = environment(r, baseConfig.Config.Env)
		config.Config.WorkingDir = "/"
		config.Config.Entrypoint = []string{recipe.EntrypointLink}
		config.Config.Cmd = []string{"init"}
	}
	var below []v1.Layer
	for _, a := range adds {
		below = append(below, a.Layer)
		config.History = append(config.History, a.History)
	}
	config.History = append(config.History, list.History)
	list.Layer, labels[recipe.LabelFiles], err = inventory.Layer(ctx, b.Layers(), spec(r, inventory.LayerName, ""), below, config.DeepCopy())
	if err != nil {
		return nil, err
	}
	list.Annotations = layer.Keyed(list.Layer, map[string]string{recipe.LabelFiles: labels[recipe.LabelFiles]})
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, append(adds, list)...)
	if err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	made, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.RootFS = made.RootFS
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels).(v1.Image), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}

// addenda lists the layers with their history: those of the base as they are, then those of the
// recipe.
func (b *Builder) addenda(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	baseConfig *v1.ConfigFile,
	layers []namedLayer,
) (adds []mutate.Addendum, err error) {
	below, err := base.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	histories, known := layer.Histories(baseConfig, len(below))
	for i, l := range below {
		add := mutate.Addendum{
			Layer:   l,
			History: v1.History{CreatedBy: "base image", Created: v1.Time{Time: r.Time()}},
		}
		if known {
			add.History = histories[i]
		}
		add.MediaType, err = layer.OCIMediaType(l)
		if err != nil {
			return nil, err
		}
		adds = append(adds, add)
	}
	for _, l := range layers {
		adds = append(adds, mutate.Addendum{Layer: l.layer, History: history(r, l.name)})
	}
	for i, add := range adds {
		more, err := b.Layers().Annotations(ctx, add.Layer)
		if err != nil {
			return nil, err
		}
		// what its manifest says stays, but only a layer that this build made, or knows by its key,
		// may say so
		if i < len(below) {
			desc, err := partial.Descriptor(add.Layer)
			if err != nil {
				return nil, err
			}
			all := map[string]string{}
			maps.Copy(all, desc.Annotations)
			delete(all, recipe.LabelKey)
			delete(all, recipe.LabelFiles)
			maps.Copy(all, more)
			more = all
		}
		adds[i].Annotations = more
	}
	return adds, nil
}

func history(r *recipe.Recipe, name string) v1.History {
	return v1.History{
		Created:   v1.Time{Time: r.Time()},
		CreatedBy: "driver-build " + r.Builder.Version + ": " + name,
	}
}

// environment is that of the base with what the GPU Operator and NVIDIA's container runtime expect
// of a driver image: void keeps the runtime from injecting a driver into the driver's own
// container.
func environment(r *recipe.Recipe, base []string) []string {
	vars := map[string]string{"PATH": recipe.DefaultPath}
	for _, kv := range base {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	if !slices.Contains(strings.Split(vars["PATH"], ":"), "/"+recipe.BinDir) {
		vars["PATH"] = "/" + recipe.BinDir + ":" + vars["PATH"]
	}
	if r.Toolchain {
		vars["PATH"] = r.SearchPath(vars["PATH"])
	}
	maps.Copy(
		vars,
		recipe.Variables(
			driverinfo.Description{Driver: r.Driver, Branch: r.Branch, VGPU: r.VGPU, Arch: r.Arch},
		),
	)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}
