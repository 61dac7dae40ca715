package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// InspectionSchema is the version of the shape of an Inspection as JSON.
const InspectionSchema = 1

// Inspection is what an image holds.
type Inspection struct {
	Schema int `json:"schema"` // version of this shape: 1
	// the layers were read; otherwise all facts are those of manifest, config and labels
	Deep    bool   `json:"deep"`
	Digest  string `json:"digest"`
	Arch    string `json:"arch"`
	Driver  string `json:"driver"` // "" if the labels do not name it
	System  string `json:"system"` // ID and VERSION_ID of its os-release
	Profile string `json:"profile,omitempty"`
	// kernel sources that are there; of a summary, those that the image offers
	Flavours []string `json:"flavours"`
	Kernels  []string `json:"kernels,omitempty"` // that the image has compiled modules for
	// SHA-256 of the certificate whose key signed these modules, as the label has it
	Signer string `json:"signer,omitempty"`
	// VGPU says whose licence the driver for vGPU guests needs, as the label has it; "": it is for
	// whole GPUs.
	VGPU    string `json:"vgpu,omitempty"`
	Content string `json:"content,omitempty"` // tells images of different content apart
	// image that this one is built upon, with its digest
	Base    string            `json:"base,omitempty"`
	Created string            `json:"created,omitempty"`
	Size    int64             `json:"size"` // compressed bytes of all layers
	Layers  []LayerInfo       `json:"layers"`
	Env     []string          `json:"env"`
	Command []string          `json:"command"`
	Labels  map[string]string `json:"labels,omitempty"`

	// Those below are read from the layers: they are there with --deep only.

	Libraries []string `json:"libraries,omitempty"`
	Programs  []string `json:"programs,omitempty"`
	// our programs that an image of this project does not have
	Lacks    []string             `json:"lacks,omitempty"`
	Firmware []string             `json:"firmware,omitempty"`
	Modules  []ModuleSet          `json:"modules,omitempty"` // precompiled
	Packages []packages.Installed `json:"packages,omitempty"`
	// versions of the driver's components, by name
	Components map[string]string `json:"components,omitempty"`
	// the description in images of this project
	Description *driverinfo.Description `json:"description,omitempty"`
}

// LayerInfo is one layer, from the base upwards.
type LayerInfo struct {
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	CreatedBy string `json:"createdBy,omitempty"`
}

// Inspect reads an image and says what it holds.
func (e Examiner) Inspect(
	ctx context.Context,
	name string,
	img v1.Image,
) (i *Inspection, err error) {
	err = e.unpacked(ctx, name, "inspect", img, IsInspected, func(tree *rootfs.Tree) error {
		i, err = e.InspectTree(ctx, img, tree)
		return err
	})
	return i, err
}

// IsInspected reports whether InspectTree reads the content of a file. The names of the driver's
// libraries are enough.
func IsInspected(p string) bool {
	return packages.IsDatabase(p) || p == driverinfo.Path || p == recipe.ComponentsFile ||
		recipe.InFolder(p, recipe.ModulesDir) ||
		strings.HasSuffix(p, "/os-release") ||
		strings.HasPrefix(p, "etc/ld.so.conf")
}

// InspectTree is Inspect of an image whose files are in a tree: the names of all, the content of
// those that IsInspected selects.
func (e Examiner) InspectTree(
	ctx context.Context,
	img v1.Image,
	tree *rootfs.Tree,
) (*Inspection, error) {
	i, err := inspectManifest(img)
	if err != nil {
		return nil, err
	}
	i.Deep = true
	i.Modules, err = moduleSets(ctx, e.Store, tree, nil)
	if err != nil {
		return nil, err
	}
	if id, version, err := osrelease.Read(tree.OpenFS()); err == nil {
		i.System = id + version
	}
	s := &subject{
		tree:   tree,
		all:    tree.All(),
		config: &v1.ConfigFile{Config: v1.Config{Env: i.Env}},
	}
	s.info, s.infoErr = driverinfo.Read(tree.OpenFS())
	s.findFolders()
	s.findDriver()
	checkVersion(s)
	i.Driver = s.version
	for _, f := range s.drivers {
		if f.library {
			i.Libraries = append(i.Libraries, "/"+f.Path)
		} else {
			i.Programs = append(i.Programs, "/"+f.Path)
		}
	}
	for _, flavour := range []string{"proprietary", "open"} {
		if tree.Exists(recipe.KernelDir(i.Driver, flavour)) {
			i.Flavours = append(i.Flavours, flavour)
		}
	}
	for _, e := range s.all {
		if e.Kind == rootfs.File && strings.Contains(e.Path, "/firmware/nvidia/"+i.Driver+"/") {
			i.Firmware = append(i.Firmware, "/"+e.Path)
		}
	}
	if s.infoErr == nil { // verify says what is wrong with one that cannot be read
		i.Description = &s.info
		if s.modulesOnly() {
			i.System = s.info.OS
		} else if s.which(probe) == nil {
			i.Lacks = []string{recipe.ProbeName}
		}
	}
	i.Components, _ = s.components() // as above
	i.Packages, err = packages.InstalledIn(tree)
	return i, err
}

// Summarize returns what manifest, config and labels of an image say. It reads no layer, so what it
// returns is what the image claims. Driver and system of an image without labels of this project
// are empty.
func Summarize(img v1.Image) (*Inspection, error) {
	i, err := inspectManifest(img)
	if err != nil {
		return nil, err
	}
	i.Driver = i.Labels[recipe.LabelDriver]
	i.System = i.Labels[recipe.LabelSystem]
	i.Flavours = list(i.Labels[recipe.LabelFlavours])
	return i, nil
}

// inspectManifest returns what manifest and config say, and of the labels what no file of the image
// shows.
func inspectManifest(img v1.Image) (*Inspection, error) {
	digest, errDigest := img.Digest()
	config, errConfig := img.ConfigFile()
	layers, errLayers := img.Layers()
	if err := errors.Join(errDigest, errConfig, errLayers); err != nil {
		return nil, fmt.Errorf("read the image's configuration and manifest: %w", err)
	}
	c := config.Config
	i := &Inspection{
		Schema: InspectionSchema, Digest: digest.String(), Arch: config.Architecture, Env: c.Env, Command: append(slices.Clone(c.Entrypoint), c.Cmd...),
		Labels: c.Labels, Profile: c.Labels[recipe.LabelProfile], Kernels: list(c.Labels[recipe.LabelKernels]), Signer: c.Labels[recipe.LabelSigner],
		VGPU: c.Labels[recipe.LabelVGPU], Content: c.Labels[recipe.LabelContent], Created: c.Labels[recipe.OCIPrefix+"created"], Base: c.Labels[recipe.OCIPrefix+"base.name"],
	}
	if d := c.Labels[recipe.OCIPrefix+"base.digest"]; d != "" {
		// a base from a layout or an archive can be without a name
		i.Base = strings.TrimPrefix(i.Base+"@"+d, "@")
	}
	histories, _ := layer.Histories(config, len(layers))
	for n, l := range layers {
		d, errDigest := l.Digest()
		size, errSize := l.Size()
		if err := errors.Join(errDigest, errSize); err != nil {
			return nil, err
		}
		i.Layers = append(
			i.Layers,
			LayerInfo{Digest: d.String(), Size: size, CreatedBy: histories[n].CreatedBy},
		)
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
