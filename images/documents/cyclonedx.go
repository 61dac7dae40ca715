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

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// cdxTypes are the types of components, by SPDX's purposes.
var cdxTypes = map[string]cdx.ComponentType{
	"CONTAINER":        cdx.ComponentTypeContainer,
	"OPERATING-SYSTEM": cdx.ComponentTypeOS,
	"APPLICATION":      cdx.ComponentTypeApplication,
	"FIRMWARE":         cdx.ComponentTypeFirmware,
	"FILE":             cdx.ComponentTypeFile,
	"SOURCE":           cdx.ComponentTypeFile,
}

// filled returns a list as the library has it, where nil is none.
func filled[T any](all []T) *[]T {
	if len(all) == 0 {
		return nil
	}
	return &all
}

// cdxRelations is what CycloneDX has in place of SPDX's relations, by the ids of components.
type cdxRelations struct {
	needs     map[string][]string
	pedigrees map[string]*cdx.Pedigree // ancestors and patches
	bases     map[string]bool          // ancestors: they are in a pedigree, and no components
}

func (g *graph) cdxRelations(relations []relation) cdxRelations {
	all := cdxRelations{
		needs:     map[string][]string{},
		pedigrees: map[string]*cdx.Pedigree{},
		bases:     map[string]bool{},
	}
	patches := map[string][]cdx.Patch{}
	for _, r := range relations {
		switch r.kind {
		case contains, generatedFrom:
			all.needs[r.from] = append(all.needs[r.from], r.to)
		case variantOf, buildDependencyOf:
			all.needs[r.to] = append(all.needs[r.to], r.from)
		case patchApplied:
			// of the component that is the patch, as CycloneDX refers to parts of a document
			at := cmp.Or(g.components[r.from].download, "#"+r.from)
			patch := cdx.Patch{Type: cdx.PatchTypeUnofficial, Diff: &cdx.Diff{URL: at}}
			patches[r.to] = append(patches[r.to], patch)
			all.pedigrees[r.to] = &cdx.Pedigree{Patches: filled(patches[r.to])}
		case descendantOf:
			base := g.cdx(g.components[r.to])
			all.pedigrees[r.from] = &cdx.Pedigree{Ancestors: &[]cdx.Component{base}}
			all.bases[r.to] = true
		}
	}
	return all
}

// dependencies are sorted by the component that needs the others.
func (r cdxRelations) dependencies() (all []cdx.Dependency) {
	for _, id := range slices.Sorted(maps.Keys(r.needs)) {
		needs := slices.Sorted(slices.Values(r.needs[id]))
		all = append(all, cdx.Dependency{Ref: id, Dependencies: &needs})
	}
	return all
}

func (g *graph) cycloneDX() ([]byte, error) {
	list, found := g.sorted()
	relations := g.cdxRelations(found)
	var top cdx.Component
	var components []cdx.Component
	for _, c := range list {
		component := g.cdx(c)
		component.Pedigree = relations.pedigrees[c.id]
		switch {
		case relations.bases[c.id]:
		case c.id == g.top:
			top = component
		default:
			components = append(components, component)
		}
	}
	tool := cdx.Component{
		Type:    cdx.ComponentTypeApplication,
		Name:    "driver-build",
		Version: g.model.Tool.Version,
	}
	d := cdx.BOM{
		JSONSchema:  "http://cyclonedx.org/schema/bom-1.6.schema.json",
		BOMFormat:   cdx.BOMFormat,
		SpecVersion: cdx.SpecVersion1_6,
		Version:     1,
		Metadata: &cdx.Metadata{
			Timestamp: g.created.Format(time.RFC3339),
			Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{tool}},
			Component: &top,
		},
		Components:   filled(components),
		Dependencies: filled(relations.dependencies()),
	}
	sum, err := contentSum(d)
	if err != nil {
		return nil, err
	}
	// a UUID of version 8: its maker decides what is in it
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	d.SerialNumber = fmt.Sprintf(
		"urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16],
	)
	return encode(d)
}

func (g *graph) cdx(c component) cdx.Component {
	out := cdx.Component{
		Type:       cmp.Or(cdxTypes[c.purpose], cdx.ComponentTypeLibrary),
		BOMRef:     c.id,
		Name:       c.name,
		Version:    c.version,
		PackageURL: c.purl,
		CPE:        c.cpe,
	}
	if c.buildOnly {
		out.Scope = cdx.ScopeExcluded
	}
	if c.supplier != "" {
		out.Supplier = &cdx.OrganizationalEntity{Name: c.supplier}
	}
	var hashes []cdx.Hash
	for _, s := range c.sums {
		algorithm := cdx.HashAlgorithm(strings.Replace(s.algorithm, "SHA", "SHA-", 1))
		hashes = append(hashes, cdx.Hash{Algorithm: algorithm, Value: s.hex})
	}
	out.Hashes = filled(hashes)
	if c.licence != "" {
		out.Licenses = &cdx.Licenses{g.cdxLicence(c)}
	}
	if c.download != "" {
		out.ExternalReferences = &[]cdx.ExternalReference{
			{Type: cdx.ERTypeDistribution, URL: c.download},
		}
	}
	var properties []cdx.Property
	for _, f := range append([]fact{{"path", c.path}, {"built from", c.source}}, c.facts...) {
		if f.value != "" {
			name := "driver-container:" + strings.ReplaceAll(f.name, " ", "-")
			properties = append(properties, cdx.Property{Name: name, Value: f.value})
		}
	}
	source, version, ok := strings.Cut(c.source, " ")
	if ok { // Debian's and Ubuntu's advisories name sources, which trivy takes from here only
		properties = append(
			properties,
			cdx.Property{Name: "aquasecurity:trivy:SrcName", Value: source},
			cdx.Property{Name: "aquasecurity:trivy:SrcVersion", Value: version},
		)
	}
	out.Properties = filled(properties)
	return out
}

// cdxLicence is the licence of a component. The text of one that SPDX's list does not have is there
// once.
func (g *graph) cdxLicence(c component) cdx.LicenseChoice {
	own, ok := g.licences[c.licence]
	first := "Component-" + g.model.Images[0].Arch + "-"
	if c.licence == g.licenceID {
		own = licenceText{driverLicence, g.licence}
		ok = true
		first = "Driver-"
	}
	if !ok {
		return cdx.LicenseChoice{Expression: c.licence}
	}
	licence := &cdx.License{Name: own.name}
	if strings.HasPrefix(c.id, first) {
		licence.Text = &cdx.AttachedText{ContentType: "text/plain", Content: own.text}
	}
	return cdx.LicenseChoice{License: licence}
}

// contentSum identifies a document by its content.
func contentSum(document any) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(document)
	return sha256.Sum256(text), err
}
