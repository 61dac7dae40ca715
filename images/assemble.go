package images

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
)

type namedLayer struct {
	name  string
	layer v1.Layer
}

// assemble puts the layers on the base, and on them the one with the description, which names them
// and the configuration. The result is an OCI image whatever format the base has; a Docker layer and
// an OCI layer are the same bytes under two media types. omitted says which companions the modules
// do not have.
func (b *Builder) assemble(
	ctx context.Context,
	r *recipe.Recipe,
	info driverinfo.Description,
	base v1.Image,
	layers []namedLayer,
	omitted string,
) (v1.Image, error) {
	baseConfig, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	config, err := configuration(r, baseConfig, omitted)
	if err != nil {
		return nil, err
	}
	adds, err := addenda(r, base, baseConfig, layers)
	if err != nil {
		return nil, err
	}
	var below []v1.Layer
	for _, a := range adds {
		below = append(below, a.Layer)
		config.History = append(config.History, a.History)
	}
	last := mutate.Addendum{History: history(r, description.LayerName)}
	config.History = append(config.History, last.History)
	err = description.Record(&info, below, config)
	if err != nil {
		return nil, err
	}
	last.Layer, err = description.Layer(ctx, b.Layers(), spec(r, "", ""), info)
	if err != nil {
		return nil, err
	}
	last.Annotations = layer.Keyed(last.Layer, nil)
	return description.Image(config, append(adds, last), config.Config.Labels)
}

// configuration is that of the image, without history and layers.
func configuration(
	r *recipe.Recipe,
	base *v1.ConfigFile,
	omitted string,
) (*v1.ConfigFile, error) {
	labels, err := r.Labels()
	if err != nil {
		return nil, err
	}
	if omitted != "" {
		labels[recipe.LabelOmitted] = omitted
	}
	config := &v1.ConfigFile{
		Architecture: r.Arch,
		OS:           "linux",
		Variant:      base.Variant,
		Created:      v1.Time{Time: r.Time()},
		Config:       v1.Config{Labels: labels},
	}
	if r.Profile != recipe.ModulesOnly {
		config.Config.Env = environment(r, base.Config.Env)
		config.Config.WorkingDir = "/"
		config.Config.Entrypoint = []string{recipe.EntrypointLink}
		config.Config.Cmd = []string{"init"}
	}
	return config, nil
}

// addenda lists the layers with their history: those of the base as they are, then those of the
// recipe.
func addenda(
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
		desc, err := partial.Descriptor(l)
		if err != nil {
			return nil, err
		}
		// what its manifest says stays, but only a layer that this build made, or knows by its key,
		// may have a key
		add.Annotations = maps.Clone(desc.Annotations)
		delete(add.Annotations, recipe.LabelKey)
		adds = append(adds, add)
	}
	for _, l := range layers {
		adds = append(adds, mutate.Addendum{
			Layer:       l.layer,
			History:     history(r, l.name),
			Annotations: layer.Keyed(l.layer, nil),
		})
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
