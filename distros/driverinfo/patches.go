package driverinfo

import "slices"

// Patch is a change to the sources of the kernel modules of some flavours.
type Patch struct {
	Name     string   `json:"name"`
	SHA256   string   `json:"sha256"`
	Flavours []string `json:"flavours"`
}

// PatchNames returns what the sources of a flavour were changed with, for the identity of compiled modules:
// name and digest of each patch.
func (i Description) PatchNames(flavour string) (names []string) {
	for _, p := range i.Patches {
		if slices.Contains(p.Flavours, flavour) {
			names = append(names, p.Name+"@sha256:"+p.SHA256)
		}
	}
	return names
}
