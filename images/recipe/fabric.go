package recipe

import (
	"slices"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// FabricLayer is the name of the layer with the components.
const FabricLayer = "fabric"

// Component is a component of the driver that the image has: see package matrix.
type Component struct {
	Name    string     `json:"name"`
	Version string     `json:"version"`
	File    fetch.File `json:"file"`
}

// The folders of components in an image, besides the library folder and usr/bin.
const (
	ComponentsFile = ShareDir + "/components.json" // version by name
	TopologyDir    = "usr/share/nvidia/nvswitch"   // topologies and configuration of the fabric manager
	NVLSMDir       = "opt/nvidia/nvlsm"
	NVLSMConfigDir = "usr/share/nvidia/nvlsm"
)

// ComponentLicence is where the licence of a component is.
func ComponentLicence(name string) string { return "licenses/" + name + ".txt" }

// Fabric returns the components that the profile takes: all of them, or for CUDA alone those without which
// CUDA does not start on a machine with NVSwitch, or does not reach the GPUs of other machines.
func (p Profile) Fabric(of []matrix.Component) (list []Component) {
	for _, c := range of {
		if p.onlyCUDA() && !slices.Contains([]string{matrix.FabricManager, matrix.NVLSM, matrix.IMEX}, c.Name) {
			continue
		}
		list = append(list, Component{c.Name, c.Version, fetch.File{URL: c.URL, SHA256: c.SHA256, Size: c.Size}})
	}
	return list
}

// FabricDigests are those of the components' archives, with the names, as the input of a layer.
func (r *Recipe) FabricDigests() (all []string) {
	for _, c := range r.Fabric {
		all = append(all, c.Name+" "+c.File.SHA256)
	}
	return all
}
