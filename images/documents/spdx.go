package documents

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/recipe"
)

// Parts of SPDX 2.3 in JSON, as far as documents have them. The library (spdx/tools-golang) has the same
// types; with their constructors for each text it takes more lines, and here it judges in the tests.
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

const (
	noAssertion = "NOASSERTION"
	idPrefix    = "SPDXRef-"
)

func (g *graph) spdx() ([]byte, error) {
	list, relations := g.sorted()
	top := g.components[g.top]
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: idPrefix + documentID, Name: strings.TrimSuffix(top.name+"-"+top.version, "-"),
		Creation: spdxCreation{Created: g.created.Format(time.RFC3339), Creators: []string{"Tool: " + toolName(g.model.Tool)}},
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
		d.Relationships = append(d.Relationships, spdxRelationship{idPrefix + r.from, r.kind, idPrefix + r.to})
	}
	sum, err := contentSum(d)
	if err != nil {
		return nil, err
	}
	// Each document has a namespace of its own: two about one image can say different things.
	d.Namespace = recipe.ProjectURL + "/sbom/" + top.digest() + "-" + hex.EncodeToString(sum[:8])
	return encode(d, "  ")
}

func (c component) spdx() spdxPackage {
	p := spdxPackage{
		ID: idPrefix + c.id, Name: c.name, Version: c.version, FileName: c.path, Purpose: c.purpose, Download: noAssertion, LicenseDeclared: noAssertion,
	}
	if c.supplier != "" {
		p.Supplier = "Organization: " + strings.NewReplacer("<", "(", ">", ")", "\n", " ").Replace(c.supplier)
	}
	if c.download != "" {
		p.Download = c.download
	}
	if c.licence != "" {
		p.LicenseDeclared = c.licence
	}
	if c.source != "" {
		p.SourceInfo = "built package from: " + c.source // trivy reads it
	}
	for _, s := range c.sums {
		p.Checksums = append(p.Checksums, spdxChecksum{s.algorithm, s.hex})
	}
	var facts []string
	for _, f := range c.facts {
		facts = append(facts, f.name+": "+f.value)
	}
	p.Comment = strings.Join(facts, "\n")
	if c.purl != "" {
		p.References = append(p.References, spdxRef{"PACKAGE-MANAGER", "purl", c.purl})
	}
	if c.cpe != "" {
		p.References = append(p.References, spdxRef{"SECURITY", "cpe23Type", c.cpe})
	}
	return p
}

// digest is the SHA-256 of a component in hex digits.
func (c component) digest() string {
	for _, s := range c.sums {
		if s.algorithm == "SHA256" {
			return s.hex
		}
	}
	return ""
}

// contentSum identifies a document by its content.
func contentSum(d any) (sum [sha256.Size]byte, err error) {
	b, err := json.Marshal(d)
	if err != nil {
		err = fmt.Errorf("write the bill of materials: %w", err)
	}
	return sha256.Sum256(b), err
}
