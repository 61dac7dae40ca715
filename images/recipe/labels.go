package recipe

import (
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
	LabelKernels    = labelPrefix + "kernels"            // whose modules the image has
	LabelSigner     = labelPrefix + "signer"             // SHA-256 of the certificate whose key signed those modules
	LabelAliases    = labelPrefix + "aliases"            // further tags of the image
	LabelVGPU       = driverinfo.VGPULabel               // whose licence a vGPU guest driver needs: such an image must not be published
	LabelCompanions = labelPrefix + "companions"         // "nvidia-fs 2.13.5"
	LabelOmitted    = labelPrefix + "companions.omitted" // those that the modules for a kernel do not have, and why
	LabelPatches    = labelPrefix + "patches"            // of the driver's kernel sources, with their digests
	// LabelContent tells images of different content apart: driverinfo.Description.ID of the image. It is on the
	// manifest too, so that whether an image is out of date can be seen without pulling it.
	LabelContent = labelPrefix + "content"
	// LabelFiles has the digest of FileList: "sha256:...".
	LabelFiles = labelPrefix + "files"

	// Annotations of layers in the manifest of an image. By them a later build finds finished layers.
	LabelKey     = labelPrefix + "key"     // digest of what the layer was made from
	LabelOutline = labelPrefix + "outline" // digest and size of the layer's outline: "sha256:... 1234"

	ProjectURL = "https://github.com/driver-container/driver-container"
	OCIPrefix  = "org.opencontainers.image."
)

// Licence is the SPDX reference of the driver's licence. That of vGPU guest drivers allows less, and each
// archive has its own text.
func Licence(vgpu string) string {
	if vgpu != "" {
		return "LicenseRef-NVIDIA-vGPU"
	}
	return "LicenseRef-NVIDIA-Driver"
}

// Labels are those of the image, which are the annotations of its manifest too.
func (r *Recipe) Labels() (map[string]string, error) {
	id, err := r.contentID()
	if err != nil {
		return nil, err
	}
	l := map[string]string{
		OCIPrefix + "title":       "NVIDIA driver " + r.Driver + " for " + r.System,
		OCIPrefix + "version":     r.Tag,
		OCIPrefix + "source":      ProjectURL,
		OCIPrefix + "licenses":    Licence(r.VGPU),
		OCIPrefix + "base.digest": r.Base.Digest,
		LabelDriver:               r.Driver,
		LabelSystem:               r.System,
		LabelProfile:              string(r.Profile),
		LabelFlavours:             strings.Join(r.Flavours, ","),
		LabelContent:              id,
	}
	if r.Epoch > 0 {
		l[OCIPrefix+"created"] = r.Time().Format(time.RFC3339)
	}
	for name, value := range map[string]string{
		OCIPrefix + "base.name": r.Base.Name, OCIPrefix + "revision": r.Builder.Revision, LabelOverridden: strings.Join(r.Overridden, "; "),
		LabelKernels: strings.Join(r.Releases(), ","), LabelSigner: r.Signer, LabelPatches: r.patchLabel(),
		LabelAliases: strings.Join(r.Aliases, ","), LabelCompanions: strings.Join(r.CompanionNames(), ", "), LabelVGPU: r.VGPU,
	} {
		if value != "" {
			l[name] = value
		}
	}
	return l, nil
}
