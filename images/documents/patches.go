package documents

import (
	"slices"
)

// addPatches adds the patches that were applied to the sources of a flavour.
func (g *graph) addPatches(i *Image, flavour, sources string) {
	if i.recipe == nil {
		return
	}
	for _, p := range i.recipe.Patches {
		if !slices.Contains(p.Flavours, flavour) {
			continue
		}
		g.relate(g.add(component{
			id: "Patch-" + i.Arch + "-" + p.Name, purpose: "SOURCE", name: p.Name + ".patch", download: p.URL, licence: p.Licence,
			sums: []sum{{"SHA256", p.SHA256}}, facts: []fact{{"reason", p.Reason}, {"origin", p.Origin}},
		}), patchApplied, sources)
	}
}

// cdxPatch is one of the patches of a pedigree.
type cdxPatch struct {
	Type string  `json:"type"` // "unofficial": not from the supplier of what it changes
	Diff cdxDiff `json:"diff"`
}

type cdxDiff struct {
	URL string `json:"url"` // of the component that is the patch, as CycloneDX refers to parts of a document
}
