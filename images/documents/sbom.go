package documents

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// Format of a document.
type Format string

// The formats, by their names on the command line.
const (
	SPDX      Format = "spdx"      // SPDX 2.3, JSON
	CycloneDX Format = "cyclonedx" // CycloneDX 1.6, JSON
	OpenVEX   Format = "openvex"   // OpenVEX 0.2.0, no bill of materials: see [Statements]
)

// SBOMMethod is raised when documents of the same image and recipe say something else than before.
const SBOMMethod = 4

var formats = map[Format]struct{ predicate, media string }{
	SPDX: {
		"https://spdx.dev/Document",
		"application/spdx+json",
	}, CycloneDX: {"https://cyclonedx.org/bom", "application/vnd.cyclonedx+json"},
}

// PredicateType is that of an attestation with such a document.
func (f Format) PredicateType() string { return formats[f].predicate }

// MediaType is that of such a document as a file, and the artifactType of a referrer.
func (f Format) MediaType() string { return formats[f].media }

// Model is what a document is made of.
type Model struct {
	Name   string // last part of the repository's name: "driver"; "": it is not known
	Index  string // digest of the index of several architectures; "": there is one image
	Images []*ImageContent
	Tool   recipe.BuilderInfo // makes the document
}

// name is the name of the images in a document.
func (m Model) name() string { return cmp.Or(m.Name, "nvidia-driver") }

// ImageContent is what is known of one image.
type ImageContent struct {
	verify.Inspection

	systemID, systemVersion string // ID and VERSION_ID of its os-release
	created                 time.Time
	// files of the driver that the inspection does not list
	others []string
	// SHA-256 of files, by path: "/usr/lib/x86_64-linux-gnu/libcuda.so.535.261.03"
	sums map[string]string
	// names in the folder of a library that lead to it: "libcuda.so.1"
	links map[string][]string
	// of licences, by path: "usr/share/doc/kmod/copyright"
	texts  map[string]string
	own    []program
	recipe recipe.Recipe // the zero value: it is not known
}

// ErrForeign means that a recipe is not that of the image.
var ErrForeign = errors.New("the recipe is of another image")

// AddRecipe adds what the recipe of the image knows: origins and digests of packages, driver and
// base, and what modules were compiled with. It returns ErrForeign for the recipe of another image.
func (i *ImageContent) AddRecipe(r *recipe.Recipe) error {
	info, err := r.Describe()
	if err != nil {
		return err
	}
	if label := i.Labels[recipe.LabelContent]; label != info.ID || i.Arch != r.Arch {
		return fmt.Errorf(
			"%w: it makes content %s for %s, the image %s has %s for %s",
			ErrForeign,
			info.ID,
			r.Arch,
			i.Digest,
			label,
			i.Arch,
		)
	}
	i.recipe = *r.Public()
	return nil
}

// SBOM returns the bill of materials as bytes: equal for equal models, whatever the order of their
// lists.
func SBOM(m Model, f Format) ([]byte, error) {
	if len(m.Images) == 0 {
		return nil, errors.New("make a bill of materials: there is no image")
	}
	g := newGraph(m)
	if f == CycloneDX {
		return g.cycloneDX()
	}
	return g.spdx()
}

func encode(document any) ([]byte, error) {
	text, err := oci.EncodeJSON(document, "  ")
	return append(text, '\n'), err
}

// Packages returns the package URLs of what is in the images, and of what built it, sorted.
func (m Model) Packages() (all []string) {
	list, _ := newGraph(m).sorted()
	for _, c := range list {
		if c.purl != "" && c.purpose != "CONTAINER" {
			all = append(all, c.purl)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
