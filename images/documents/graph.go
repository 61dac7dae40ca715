package documents

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/recipe"
)

// graph is what both formats say: components, and how they belong together.
type graph struct {
	model      Model
	created    time.Time
	top        string // id of the image, or of the index
	components map[string]component
	relations  map[relation]bool
	licence    string // text of NVIDIA's; "": not known
	// of NVIDIA's, where its text is known: a document that names a licence of its own has to
	// repeat it
	licenceID string
	licences  map[string]licenceText // of components, by their ids
}

// licenceText is a licence that SPDX's list does not have.
type licenceText struct{ name, text string }

// component is a package of SPDX, a component of CycloneDX. What is not known is "".
type component struct {
	id        string // "Driver-amd64"
	purpose   string // a purpose of SPDX; "" for packages of a system
	name      string
	version   string
	path      string // in the image
	purl, cpe string
	supplier  string // an organisation
	download  string // URL
	licence   string // an SPDX expression
	source    string // of a package: "gcc-12 12.2.0-14"
	sums      []sum
	facts     []fact
	buildOnly bool // is not in the image: made something that is
}

// sum is a digest, by the name that SPDX gives the algorithm.
type sum struct{ algorithm, hex string }

// sha256Of is the digest "sha256:..." as a sum; none for any other text.
func sha256Of(digest string) []sum {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return nil
	}
	return []sum{{"SHA256", hex}}
}

// sha256Sum is the digest of 64 hex digits as a sum.
func sha256Sum(hex string) []sum { return []sum{{"SHA256", hex}} }

// fact is what neither format has a field for.
type fact struct{ name, value string }

// facts are pairs of a name and a value; those without a value are left out.
func facts(words ...string) (all []fact) {
	for pair := range slices.Chunk(words, 2) {
		if pair[1] != "" {
			all = append(all, fact{pair[0], pair[1]})
		}
	}
	return all
}

// relation is one of SPDX: from CONTAINS to.
type relation struct{ from, kind, to string }

// The relations that documents have.
const (
	describes         = "DESCRIBES"
	contains          = "CONTAINS"
	variantOf         = "VARIANT_OF"
	descendantOf      = "DESCENDANT_OF"
	generatedFrom     = "GENERATED_FROM"
	buildDependencyOf = "BUILD_DEPENDENCY_OF"
	patchApplied      = "PATCH_APPLIED"
)

const (
	documentID = "DOCUMENT" // what SPDX calls the document itself
	nvidia     = "NVIDIA Corporation"

	driverLicence = "Licence of NVIDIA's driver"
)

func newGraph(m Model) *graph {
	m.Name = m.name()
	g := &graph{
		model:      m,
		components: map[string]component{},
		relations:  map[relation]bool{},
		licences:   map[string]licenceText{},
	}
	// Lists are sorted, so that their order has no effect: of the images here, of packages where
	// they are added.
	m.Images = slices.SortedFunc(
		slices.Values(m.Images),
		func(a, b *ImageContent) int { return strings.Compare(a.Arch, b.Arch) },
	)
	g.model.Images = m.Images
	for _, i := range m.Images {
		if i.created.After(g.created) {
			g.created = i.created
		}
		g.licence = max(g.licence, i.texts[recipe.LicenceFile]) // those of one release are equal
	}
	if g.licence != "" {
		g.licenceID = recipe.Licence(m.Images[0].Labels[recipe.LabelVGPU])
	}
	if m.Index != "" {
		tag := m.Images[0].tag()
		g.top = g.add(component{
			id: "Index", purpose: "CONTAINER", name: g.model.Name, version: tag, sums: sha256Of(m.Index),
			purl: imagePURL(g.model.Name, m.Index, map[string]string{"tag": tag}),
		})
	}
	for _, i := range m.Images {
		id := g.addImage(i)
		if m.Index == "" {
			g.top = id
		} else {
			g.relate(id, variantOf, g.top)
		}
	}
	g.relate(documentID, describes, g.top)
	return g
}

// add adds a component under a valid id, and returns the id. A component that is there already
// stays as it is: the image's own record knows more of a package than the recipe does. Different
// components whose ids are equal ("libx+", "libx-") get a number.
func (g *graph) add(c component) string {
	c.id = identifier(c.id)
	for n, id := 2, c.id; ; n++ {
		old, ok := g.components[c.id]
		if !ok {
			g.components[c.id] = c
			return c.id
		}
		if old.name == c.name && old.version == c.version && old.path == c.path {
			old.buildOnly = old.buildOnly && c.buildOnly
			g.components[c.id] = old
			return c.id
		}
		c.id = id + "-" + strconv.Itoa(n)
	}
}

// contain adds a component that is in another one, and returns its id.
func (g *graph) contain(in string, c component) string {
	id := g.add(c)
	g.relate(in, contains, id)
	return id
}

func (g *graph) relate(from, kind, to string) { g.relations[relation{from, kind, to}] = true }

var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9.]`)

// identifier writes text with the characters that an id may have: letters, digits, '.' and '-'.
// Each other one becomes '-'.
func identifier(text string) string { return notInIdentifiers.ReplaceAllString(text, "-") }

// sorted returns the components by their ids, and the relations.
func (g *graph) sorted() (list []component, relations []relation) {
	list = slices.SortedFunc(
		maps.Values(g.components),
		func(a, b component) int { return strings.Compare(a.id, b.id) },
	)
	return list, slices.SortedFunc(maps.Keys(g.relations), func(a, b relation) int {
		return cmp.Or(
			strings.Compare(a.from, b.from),
			strings.Compare(a.kind, b.kind),
			strings.Compare(a.to, b.to),
		)
	})
}
