package documents

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/recipe"
)

// Parts of SPDX 2.3 in JSON, as far as documents have them. The library (spdx/tools-golang) has the
// same types; with their constructors for each text it takes more lines, and here it judges in the
// tests.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Licences      []spdxLicence      `json:"hasExtractedLicensingInfos,omitempty"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID              string         `json:"SPDXID"`
		Name            string         `json:"name"`
		Version         string         `json:"versionInfo,omitempty"`
		FileName        string         `json:"packageFileName,omitempty"`
		Purpose         string         `json:"primaryPackagePurpose,omitempty"`
		Supplier        string         `json:"supplier,omitempty"`
		Download        string         `json:"downloadLocation"`
		FilesAnalyzed   bool           `json:"filesAnalyzed"` // false; the format's default is true
		Checksums       []spdxChecksum `json:"checksums,omitempty"`
		SourceInfo      string         `json:"sourceInfo,omitempty"`
		LicenseDeclared string         `json:"licenseDeclared"`
		Comment         string         `json:"comment,omitempty"`
		References      []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxLicence struct {
		ID   string `json:"licenseId"`
		Name string `json:"name"`
		Text string `json:"extractedText"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const idPrefix = "SPDXRef-"

func (g *graph) spdx() ([]byte, error) {
	list, relations := g.sorted()
	top := g.components[g.top]
	tool := strings.TrimSuffix("Tool: driver-build-"+g.model.Tool.Version, "-")
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: idPrefix + documentID, Name: strings.TrimSuffix(top.name+"-"+top.version, "-"),
		Creation: spdxCreation{Created: g.created.Format(time.RFC3339), Creators: []string{tool}},
	}
	for _, c := range list {
		d.Packages = append(d.Packages, c.spdx())
	}
	if g.licence != "" {
		d.Licences = []spdxLicence{{g.licenceID, "Licence of NVIDIA's driver", g.licence}}
	}
	for _, id := range slices.Sorted(maps.Keys(g.licences)) {
		d.Licences = append(d.Licences, spdxLicence{id, g.licences[id].name, g.licences[id].text})
	}
	for _, r := range relations {
		d.Relationships = append(
			d.Relationships,
			spdxRelationship{idPrefix + r.from, r.kind, idPrefix + r.to},
		)
	}
	content, err := contentSum(d)
	if err != nil {
		return nil, err
	}
	about := ""
	if len(top.sums) > 0 {
		about = top.sums[0].hex
	}
	// Each document has a namespace of its own: two about one image can say different things.
	d.Namespace = recipe.ProjectURL + "/sbom/" + about + "-" + hex.EncodeToString(content[:8])
	return encode(d)
}

func (c component) spdx() spdxPackage {
	p := spdxPackage{
		ID: idPrefix + c.id, Name: c.name, Version: c.version, FileName: c.path, Purpose: c.purpose,
		Download: cmp.Or(
			c.download,
			"NOASSERTION",
		), LicenseDeclared: cmp.Or(c.licence, "NOASSERTION"),
	}
	if c.supplier != "" {
		p.Supplier = "Organization: " + strings.NewReplacer("<", "(", ">", ")", "\n", " ").
			Replace(c.supplier)
	}
	if c.source != "" {
		p.SourceInfo = "built package from: " + c.source // trivy reads it
	}
	for _, s := range c.sums {
		p.Checksums = append(p.Checksums, spdxChecksum{s.algorithm, s.hex})
	}
	var lines []string
	for _, f := range c.facts {
		lines = append(lines, f.name+": "+f.value)
	}
	p.Comment = strings.Join(lines, "\n")
	if c.purl != "" {
		p.References = append(p.References, spdxRef{"PACKAGE-MANAGER", "purl", c.purl})
	}
	if c.cpe != "" {
		p.References = append(p.References, spdxRef{"SECURITY", "cpe23Type", c.cpe})
	}
	return p
}
