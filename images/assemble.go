package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros"
)

// Labels of our own, besides the standard org.opencontainers.image.* ones.
const (
	labelPrefix     = "io.github.driver-container."
	LabelDriver     = labelPrefix + "driver"
	LabelSystem     = labelPrefix + "os"
	LabelProfile    = labelPrefix + "profile"
	LabelFlavours   = labelPrefix + "flavours"
	LabelOverridden = labelPrefix + "overridden"
	LabelKernels    = labelPrefix + "kernels" // with modules compiled ahead of time
	LabelSigner     = labelPrefix + "signer"  // SHA-256 of the certificate whose key signed those modules
	// LabelContent tells images of different content apart: driverinfo.Info.ID of the image. It is on the manifest too, so that
	// whether an image is out of date can be seen without pulling it.
	LabelContent = labelPrefix + "content"
	projectURL   = "https://github.com/driver-container/driver-container"
	ociPrefix    = "org.opencontainers.image."
	defaultPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

type namedLayer struct {
	name  string
	layer v1.Layer
}

// assemble puts the layers on the base and writes the configuration. The result is an OCI image whatever format the base
// has; a Docker layer and an OCI layer are the same bytes under two media types.
func assemble(r *Recipe, base v1.Image, layers []namedLayer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	baseConfig, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration of the base: %w", err)
	}
	adds, err := addenda(r, base, baseConfig, layers)
	if err != nil {
		return nil, err
	}
	if img, err = mutate.Append(img, adds...); err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	labels, err := labels(r)
	if err != nil {
		return nil, err
	}
	config.Architecture, config.OS, config.Variant = r.Arch, "linux", baseConfig.Variant
	config.Created = v1.Time{Time: r.time()}
	config.Config = v1.Config{
		Env:        environment(r, baseConfig.Config.Env),
		Entrypoint: []string{EntrypointLink},
		Cmd:        []string{"init"},
		WorkingDir: "/",
		Labels:     labels,
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, labels).(v1.Image), nil //nolint:forcetypeassert,errcheck // it returns what it is given
}

// addenda lists the layers with their history: those of the base as they are, then ours.
func addenda(r *Recipe, base v1.Image, baseConfig *v1.ConfigFile, layers []namedLayer) ([]mutate.Addendum, error) {
	below, err := base.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	var adds []mutate.Addendum
	var histories []v1.History
	for _, h := range baseConfig.History {
		if !h.EmptyLayer {
			histories = append(histories, h)
		}
	}
	for i, l := range below {
		add := mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "base image", Created: v1.Time{Time: r.time()}}}
		if len(histories) == len(below) {
			add.History = histories[i]
		}
		if add.MediaType, err = ociMediaType(l); err != nil {
			return nil, err
		}
		adds = append(adds, add)
	}
	for _, l := range layers {
		mt, err := l.layer.MediaType()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: l.layer, MediaType: mt, History: v1.History{
			Created: v1.Time{Time: r.time()}, CreatedBy: "driver-build " + r.Builder.Version + ": " + l.name,
		}})
	}
	return adds, nil
}

func ociMediaType(l v1.Layer) (types.MediaType, error) {
	mt, err := l.MediaType()
	if err != nil {
		return "", err
	}
	switch mt {
	case types.DockerLayer:
		return types.OCILayer, nil
	case types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer, nil
	default:
		return mt, nil
	}
}

// environment is that of the base with what the GPU Operator and NVIDIA's container runtime expect of a driver image: void
// keeps the runtime from injecting a driver into the driver's own container.
func environment(r *Recipe, base []string) []string {
	vars := map[string]string{"PATH": defaultPath}
	for _, kv := range base {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	if !slices.Contains(strings.Split(vars["PATH"], ":"), "/"+binDir) {
		vars["PATH"] = "/" + binDir + ":" + vars["PATH"]
	}
	if r.Toolchain {
		vars["PATH"] = r.searchPath(vars["PATH"])
	}
	maps.Copy(vars, map[string]string{
		"DRIVER_VERSION": r.Driver, "DRIVER_BRANCH": strings.TrimPrefix(r.Branch, "R"), "DRIVER_TYPE": "passthrough",
		"TARGETARCH": r.Arch, "NVIDIA_VISIBLE_DEVICES": "void",
	})
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// searchPath is a search path with the folders of the system's compilers that are not on the usual one, last.
func (r *Recipe) searchPath(path string) string {
	d, err := distros.Lookup(r.System)
	if err != nil {
		return path // planning has refused it
	}
	if system, ok := d.(distros.RPM); ok {
		for _, dir := range system.CompilerDirs() {
			path += ":/" + dir
		}
	}
	return path
}

func labels(r *Recipe) (map[string]string, error) {
	id, err := r.contentID()
	if err != nil {
		return nil, err
	}
	l := map[string]string{
		ociPrefix + "title":       "NVIDIA driver " + r.Driver + " for " + r.System,
		ociPrefix + "version":     r.Tag,
		ociPrefix + "source":      projectURL,
		ociPrefix + "licenses":    "LicenseRef-NVIDIA-Driver",
		ociPrefix + "base.digest": r.Base.Digest,
		LabelDriver:               r.Driver,
		LabelSystem:               r.System,
		LabelProfile:              string(r.Profile),
		LabelFlavours:             strings.Join(r.Flavours, ","),
		LabelContent:              id,
	}
	if r.Epoch > 0 {
		l[ociPrefix+"created"] = r.time().Format(time.RFC3339)
	}
	for name, value := range map[string]string{
		ociPrefix + "base.name": r.Base.Name, ociPrefix + "revision": r.Builder.Revision, LabelOverridden: strings.Join(r.Overridden, "; "),
		LabelKernels: strings.Join(r.releases(), ","), LabelSigner: r.Signer,
	} {
		if value != "" {
			l[name] = value
		}
	}
	return l, nil
}
