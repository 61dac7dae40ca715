package recipe

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Patch is a change to the driver's kernel sources that the image has: see package matrix.
type Patch struct {
	Name     string            `json:"name"`
	SHA256   string            `json:"sha256"`
	File     string            `json:"file,omitempty"` // beside the matrix
	URL      string            `json:"url,omitempty"`
	Flavours []string          `json:"flavours"`
	Kernels  []driverinfo.Span `json:"kernels"` // for which it is needed
	Licence  string            `json:"licence"`
	Reason   string            `json:"reason"`
	Origin   string            `json:"origin"`
	Text     string            `json:"text,omitempty"` // of a file; "" with a URL, and in a lock
}

// Download returns the file to download; ok is false for a patch whose text is known.
func (p Patch) Download() (file fetch.File, ok bool) {
	return fetch.File{URL: p.URL, SHA256: p.SHA256}, p.URL != ""
}

// patches are those of a driver that a source and some flavours need.
func patches(d matrix.Driver, from Source, flavours []string) (list []Patch) {
	kind := matrix.SourcePackages
	if from.Archive() != nil {
		kind = matrix.SourceArchive
	}
	for _, p := range d.Patches {
		if slices.Contains(p.Sources, kind) && slices.ContainsFunc(p.Flavours, func(f string) bool { return slices.Contains(flavours, f) }) {
			list = append(list, Patch{
				Name: p.Name, SHA256: p.SHA256, File: p.File, URL: p.URL, Flavours: p.Flavours, Kernels: p.Kernels,
				Licence: p.Licence, Reason: p.Reason, Origin: p.Origin, Text: p.Text,
			})
		}
	}
	slices.SortFunc(list, func(a, b Patch) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// PatchDigests are those of the patches of some flavours, as the input of a layer; nil if there are none.
func (r *Recipe) PatchDigests(flavours ...string) (sums []string) {
	for _, p := range r.Patches {
		if slices.ContainsFunc(p.Flavours, func(f string) bool { return slices.Contains(flavours, f) }) {
			sums = append(sums, p.SHA256)
		}
	}
	slices.Sort(sums)
	return sums
}

// PatchNotes are the patches as the image's own description has them.
func (r *Recipe) PatchNotes() (notes []driverinfo.Patch) {
	for _, p := range r.Patches {
		notes = append(notes, driverinfo.Patch{Name: p.Name, SHA256: p.SHA256, Flavours: p.Flavours})
	}
	return notes
}
