package recipe

import (
	"maps"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
)

// Labels of this project, besides the standard org.opencontainers.image.* ones.
const (
	labelPrefix     = "io.github.driver-container."
	LabelDriver     = labelPrefix + "driver"
	LabelSystem     = labelPrefix + "os"
	LabelProfile    = labelPrefix + "profile"
	LabelFlavours   = labelPrefix + "flavours"
	LabelOverridden = labelPrefix + "overridden"
	LabelKernels    = labelPrefix + "kernels" // whose modules the image has
	// SHA-256 of the certificate whose key signed those modules
	LabelSigner = labelPrefix + "signer"
	// the distribution's packages whose modules these are: "NAME VERSION, NAME VERSION"
	LabelModulePackages = labelPrefix + "modules.packages"
	LabelAliases        = labelPrefix + "aliases" // further tags of the image
	// whose licence a vGPU guest driver needs: such an image must not be published
	LabelVGPU       = driverinfo.VGPULabel
	LabelCompanions = labelPrefix + "companions" // "nvidia-fs 2.13.5"
	// those that the modules for a kernel do not have, and why
	LabelOmitted = labelPrefix + "companions.omitted"
	// of the driver's kernel sources, with their digests
	LabelPatches = labelPrefix + "patches"
	// LabelContent tells images of different content apart: driverinfo.Description.ID of the image.
	// It is on the manifest too, so that whether an image is out of date can be seen without
	// pulling it.
	LabelContent = labelPrefix + "content"

	// LabelKey is an annotation of a layer in the manifest of an image: the digest of what the layer
	// was made from. By it a later build finds finished layers.
	LabelKey = labelPrefix + "key"

	ProjectURL = "https://github.com/driver-container/driver-container"
	OCIPrefix  = "org.opencontainers.image."
)

// IsLabel reports whether a name is that of a label of this project.
func IsLabel(name string) bool { return strings.HasPrefix(name, labelPrefix) }

// Licence is the SPDX reference of the driver's licence. That of vGPU guest drivers allows less,
// and each archive has its own text.
func Licence(vgpu string) string {
	if vgpu != "" {
		return "LicenseRef-NVIDIA-vGPU"
	}
	return "LicenseRef-NVIDIA-Driver"
}

// Labels are those of the image, which are the annotations of its manifest too.
func (r *Recipe) Labels() (map[string]string, error) {
	d, err := r.Describe()
	if err != nil {
		return nil, err
	}
	l := DescribedLabels(d)
	if !r.Distroless {
		l[OCIPrefix+"base.digest"] = r.Base.Digest
		l[OCIPrefix+"base.name"] = r.Base.Name
	}
	l[OCIPrefix+"version"] = r.Tag
	l[OCIPrefix+"revision"] = r.Builder.Revision
	l[LabelOverridden] = strings.Join(r.Overridden, "; ")
	// in the order of the request
	l[LabelFlavours] = strings.Join(r.Flavours, ",")
	l[LabelKernels] = strings.Join(r.Releases(), ",")
	l[LabelSigner] = r.Signer
	l[LabelAliases] = strings.Join(r.Aliases, ",")
	if r.Epoch > 0 {
		l[OCIPrefix+"created"] = r.Time().Format(time.RFC3339)
	}
	maps.DeleteFunc(l, func(_, value string) bool { return value == "" })
	return l, nil
}

// DescribedLabels are the labels that follow from what an image says of itself; "": it has none of
// that name. The words of a list may be in another order.
func DescribedLabels(d driverinfo.Description) map[string]string {
	var companions, patches []string
	for _, c := range d.Companions {
		companions = append(companions, c.Name+" "+c.Version)
	}
	for _, p := range d.Patches {
		patches = append(patches, p.Name+" sha256:"+p.SHA256)
	}
	var signed []string
	for _, p := range d.Precompiled {
		if p.Package != "" {
			signed = append(signed, p.Package)
		}
	}
	title := "NVIDIA driver " + d.Driver + " for " + d.OS
	if Profile(d.Profile) == ModulesOnly {
		title = "Kernel modules of " + title
	}
	return map[string]string{
		OCIPrefix + "title": title, OCIPrefix + "source": ProjectURL, OCIPrefix + "licenses": Licence(d.VGPU),
		LabelDriver: d.Driver, LabelSystem: d.OS, LabelProfile: d.Profile, LabelContent: d.ID, LabelVGPU: d.VGPU,
		LabelFlavours: strings.Join(d.Flavours, ","),
		LabelKernels: strings.Join(
			d.Kernels(),
			",",
		), LabelCompanions: strings.Join(companions, ", "), LabelPatches: strings.Join(patches, ", "),
		LabelModulePackages: strings.Join(signed, ", "),
	}
}

// Variables are those of the environment that follow from what an image says of itself: what the
// GPU Operator and NVIDIA's container runtime expect of a driver image. void keeps the runtime from
// injecting a driver into the driver's own container. An image that starts nothing has none.
func Variables(d driverinfo.Description) map[string]string {
	if Profile(d.Profile) == ModulesOnly {
		return nil
	}
	kind := "passthrough"
	if d.VGPU != "" {
		kind = "vgpu"
	}
	return map[string]string{
		"DRIVER_VERSION": d.Driver, "DRIVER_BRANCH": strings.TrimPrefix(d.Branch, "R"), "DRIVER_TYPE": kind, "TARGETARCH": d.Arch,
		"NVIDIA_VISIBLE_DEVICES": "void",
	}
}
