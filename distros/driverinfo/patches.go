package driverinfo

import (
	"fmt"
	"slices"
)

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

func (i Description) checkPatches() error {
	for n, p := range i.Patches {
		switch {
		case !wordShape().MatchString(p.Name) || !idShape().MatchString(p.SHA256) || len(p.Flavours) == 0:
			return fmt.Errorf("%w: patch %.80q: it needs a name, a sha256 and flavours", ErrFormat, p.Name)
		case n > 0 && i.Patches[n-1].Name >= p.Name:
			return fmt.Errorf("%w: patch %.80q: patches are sorted by name, each once", ErrFormat, p.Name)
		}
		if wrong := checkFlavours(p.Flavours); wrong != "" {
			return fmt.Errorf("%w: patch %s: %s", ErrFormat, p.Name, wrong)
		}
	}
	return nil
}
