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

	"github.com/driver-container/driver-container/images/inventory"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
)

type namedLayer struct {
	name  string
	layer v1.Layer
}

// assemble puts the layers on the base and writes the configuration. The result is an OCI image whatever
// format the base has; a Docker layer and an OCI layer are the same bytes under two media types. fileList is
// the digest of the list of files; omitted says which companions the modules do not have.
func (b *Builder) assemble(ctx context.Context, r *recipe.Recipe, base v1.Image, layers []namedLayer, fileList, omitted string) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	baseConfig, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	adds, err := b.addenda(ctx, r, base, baseConfig, layers)
	if err != nil {
		return nil, err
	}
	adds[len(adds)-1].Annotations = layer.Keyed(layers[len(layers)-1].layer, map[string]string{recipe.LabelFiles: fileList})
	if img, err = mutate.Append(img, adds...); err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	labels, err := r.Labels()
	if err != nil {
		return nil, err
	}
	labels[recipe.LabelFiles] = fileList
	if omitted != "" {
		labels[recipe.LabelOmitted] = omitted
	}
	config.Architecture, config.OS, config.Variant = r.Arch, "linux", baseConfig.Variant
	config.Created = v1.Time{Time: r.Time()}
	config.Config = v1.Config{
		Env:        environment(r, baseConfig.Config.Env),
		Entrypoint: []string{recipe.EntrypointLink},
		Cmd:        []string{"init"},
		WorkingDir: "/",
		Labels:     labels,
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels).(v1.Image), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}

// addenda lists the layers with their history: those of the base as they are, then those of the recipe.
func (b *Builder) addenda(
	ctx context.Context, r *recipe.Recipe, base v1.Image, baseConfig *v1.ConfigFile, layers []namedLayer,
) ([]mutate.Addendum, error) {
	below, err := base.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	var adds []mutate.Addendum
	histories, known := layer.Histories(baseConfig, len(below))
	for i, l := range below {
		add := mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "base image", Created: v1.Time{Time: r.Time()}}}
		if known {
			add.History = histories[i]
		}
		if add.MediaType, err = layer.OCIMediaType(l); err != nil {
			return nil, err
		}
		if add.Annotations, err = b.baseAnnotations(ctx, l); err != nil {
			return nil, err
		}
		adds = append(adds, add)
	}
	for _, l := range layers {
		mt, err := l.layer.MediaType()
		if err != nil {
			return nil, err
		}
		var annotations map[string]string
		if l.name != inventory.LayerName {
			if annotations, err = b.Layers().Annotations(ctx, l.layer, progress.Observer(nil).Begin("", "")); err != nil {
				return nil, err
			}
		}
		adds = append(adds, mutate.Addendum{Layer: l.layer, MediaType: mt, Annotations: annotations, History: v1.History{
			Created: v1.Time{Time: r.Time()}, CreatedBy: "driver-build " + r.Builder.Version + ": " + l.name,
		}})
	}
	return adds, nil
}

// baseAnnotations are those of a layer of the base in the manifest: what its manifest says, and its outline.
func (b *Builder) baseAnnotations(ctx context.Context, l v1.Layer) (map[string]string, error) {
	more, err := b.Layers().Annotations(ctx, l, progress.Observer(nil).Begin("", ""))
	if err != nil {
		return nil, err
	}
	desc, err := partial.Descriptor(l)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(desc.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	delete(all, recipe.LabelKey) // only a layer that this build made, or knows by its key, may say so
	delete(all, recipe.LabelFiles)
	maps.Copy(all, more)
	return all, nil
}

// environment is that of the base with what the GPU Operator and NVIDIA's container runtime expect of a
// driver image: void keeps the runtime from injecting a driver into the driver's own container.
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
	maps.Copy(vars, map[string]string{
		"DRIVER_VERSION": r.Driver, "DRIVER_BRANCH": strings.TrimPrefix(r.Branch, "R"), "DRIVER_TYPE": driverType(r),
		"TARGETARCH": r.Arch, "NVIDIA_VISIBLE_DEVICES": "void",
	})
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// driverType is the kind of a driver in the words of NVIDIA's images.
func driverType(r *recipe.Recipe) string {
	if r.VGPU != "" {
		return "vgpu"
	}
	return "passthrough"
}
