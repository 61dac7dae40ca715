package documents

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Parts of CycloneDX 1.6 in JSON, as far as documents have them.
type (
	cdxDocument struct {
		Schema      string `json:"$schema"`
		Format      string `json:"bomFormat"`
		SpecVersion string `json:"specVersion"`
		Serial      string `json:"serialNumber,omitempty"`
		Version     int    `json:"version"`
		Metadata    struct {
			Timestamp string `json:"timestamp"`
			Tools     struct {
				Components []cdxComponent `json:"components"`
			} `json:"tools"`
			Component cdxComponent `json:"component"`
		} `json:"metadata"`
		Components   []cdxComponent  `json:"components"`
		Dependencies []cdxDependency `json:"dependencies"`
	}
	cdxComponent struct {
		Type       string         `json:"type"`
		Ref        string         `json:"bom-ref,omitempty"`
		Supplier   *cdxSupplier   `json:"supplier,omitempty"`
		Name       string         `json:"name"`
		Version    string         `json:"version,omitempty"`
		Scope      string         `json:"scope,omitempty"`
		Hashes     []cdxHash      `json:"hashes,omitempty"`
		Licenses   []cdxLicence   `json:"licenses,omitempty"`
		CPE        string         `json:"cpe,omitempty"`
		PURL       string         `json:"purl,omitempty"`
		Pedigree   *cdxPedigree   `json:"pedigree,omitempty"`
		References []cdxReference `json:"externalReferences,omitempty"`
		Properties []cdxProperty  `json:"properties,omitempty"`
	}
	cdxSupplier struct {
		Name string `json:"name"`
	}
	cdxHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	cdxLicence struct {
		Expression string          `json:"expression,omitempty"`
		License    *cdxLicenceText `json:"license,omitempty"`
	}
	cdxLicenceText struct {
		Name string   `json:"name"`
		Text *cdxText `json:"text,omitempty"`
	}
	cdxText struct {
		ContentType string `json:"contentType"`
		Content     string `json:"content"`
	}
	cdxPedigree struct {
		Ancestors []cdxComponent `json:"ancestors,omitempty"`
		Patches   []cdxPatch     `json:"patches,omitempty"`
	}
	cdxPatch struct {
		Type string `json:"type"` // "unofficial": not from the supplier of what it changes
		// of the component that is the patch, as CycloneDX refers to parts of a document
		Diff cdxReference `json:"diff"`
	}
	cdxReference struct {
		Type string `json:"type,omitempty"`
		URL  string `json:"url"`
	}
	cdxProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	cdxDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// cdxTypes are the types of components, by SPDX's purposes.
var cdxTypes = map[string]string{
	"CONTAINER": "container", "OPERATING-SYSTEM": "operating-system", "APPLICATION": "application", "FIRMWARE": "firmware", "FILE": "file", "SOURCE": "file",
}

func (g *graph) cycloneDX() ([]byte, error) {
	list, relations := g.sorted()
	d := cdxDocument{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	d.Metadata.Timestamp = g.created.Format(time.RFC3339)
	d.Metadata.Tools.Components = []cdxComponent{{Type: "application", Name: "driver-build", Version: g.model.Tool.Version}}
	below := map[string][]string{} // what a component needs, by its id
	ancestors := map[string]string{}
	patches := map[string][]cdxPatch{}
	bases := map[string]bool{}
	for _, r := range relations {
		switch r.kind {
		case contains, generatedFrom:
			below[r.from] = append(below[r.from], r.to)
		case variantOf, buildDependencyOf:
			below[r.to] = append(below[r.to], r.from)
		case patchApplied:
			at := cmp.Or(g.components[r.from].download, "#"+r.from)
			patches[r.to] = append(patches[r.to], cdxPatch{"unofficial", cdxReference{URL: at}})
		case descendantOf:
			ancestors[r.from], bases[r.to] = r.to, true
		}
	}
	for _, c := range list {
		if bases[c.id] {
			continue
		}
		component := g.cdx(c)
		if base, ok := ancestors[c.id]; ok {
			component.Pedigree = &cdxPedigree{Ancestors: []cdxComponent{g.cdx(g.components[base])}}
		}
		if of, ok := patches[c.id]; ok {
			component.Pedigree = &cdxPedigree{Patches: of}
		}
		if c.id == g.top {
			d.Metadata.Component = component
		} else {
			d.Components = append(d.Components, component)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(below)) {
		slices.Sort(below[id])
		d.Dependencies = append(d.Dependencies, cdxDependency{id, below[id]})
	}
	sum, err := contentSum(d)
	if err != nil {
		return nil, err
	}
	// a UUID of version 8: its maker decides what is in it
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	d.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	return encode(d)
}

func (g *graph) cdx(c component) cdxComponent {
	out := cdxComponent{
		Type:    cmp.Or(cdxTypes[c.purpose], "library"),
		Ref:     c.id,
		Name:    c.name,
		Version: c.version,
		PURL:    c.purl,
		CPE:     c.cpe,
	}
	if c.buildOnly {
		out.Scope = "excluded"
	}
	if c.supplier != "" {
		out.Supplier = &cdxSupplier{c.supplier}
	}
	for _, s := range c.sums {
		out.Hashes = append(
			out.Hashes,
			cdxHash{strings.Replace(s.algorithm, "SHA", "SHA-", 1), s.hex},
		)
	}
	if c.licence != "" {
		out.Licenses = []cdxLicence{g.cdxLicence(c)}
	}
	if c.download != "" {
		out.References = []cdxReference{{"distribution", c.download}}
	}
	for _, f := range append([]fact{{"path", c.path}, {"built from", c.source}}, c.facts...) {
		if f.value != "" {
			out.Properties = append(
				out.Properties,
				cdxProperty{"driver-container:" + strings.ReplaceAll(f.name, " ", "-"), f.value},
			)
		}
	}
	return out
}

// cdxLicence is the licence of a component. The text of one that SPDX's list does not have is there
// once.
func (g *graph) cdxLicence(c component) cdxLicence {
	own, ok := g.licences[c.licence]
	first := "Component-" + g.model.Images[0].Arch + "-"
	if c.licence == g.licenceID {
		own = licenceText{"Licence of NVIDIA's driver", g.licence}
		ok = true
		first = "Driver-"
	}
	if !ok {
		return cdxLicence{Expression: c.licence}
	}
	licence := &cdxLicenceText{Name: own.name}
	if strings.HasPrefix(c.id, first) {
		licence.Text = &cdxText{"text/plain", own.text}
	}
	return cdxLicence{License: licence}
}

// contentSum identifies a document by its content.
func contentSum(document any) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(document)
	return sha256.Sum256(text), err
}
