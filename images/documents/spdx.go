package documents

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/driver-container/driver-container/images/recipe"
)

func (g *graph) spdx() ([]byte, error) {
	list, relations := g.sorted()
	top := g.components[g.top]
	tool := strings.TrimSuffix("driver-build-"+g.model.Tool.Version, "-")
	d := spdx.Document{
		SPDXVersion:    spdx.Version,
		DataLicense:    spdx.DataLicense,
		SPDXIdentifier: documentID,
		DocumentName:   strings.TrimSuffix(top.name+"-"+top.version, "-"),
		CreationInfo: &spdx.CreationInfo{
			Created:  g.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: tool}},
		},
	}
	for _, c := range list {
		d.Packages = append(d.Packages, c.spdx())
	}
	addLicence := func(id string, l licenceText) {
		d.OtherLicenses = append(d.OtherLicenses, &spdx.OtherLicense{
			LicenseIdentifier: id, LicenseName: l.name, ExtractedText: l.text,
		})
	}
	if g.licence != "" {
		addLicence(g.licenceID, licenceText{driverLicence, g.licence})
	}
	for _, id := range slices.Sorted(maps.Keys(g.licences)) {
		addLicence(id, g.licences[id])
	}
	for _, r := range relations {
		d.Relationships = append(d.Relationships, &spdx.Relationship{
			RefA:         common.MakeDocElementID("", r.from),
			RefB:         common.MakeDocElementID("", r.to),
			Relationship: r.kind,
		})
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
	d.DocumentNamespace = recipe.ProjectURL + "/sbom/" + about + "-" + hex.EncodeToString(content[:8])
	return encode(d)
}

// oneLine makes a supplier's name what SPDX allows there.
var oneLine = strings.NewReplacer("<", "(", ">", ")", "\n", " ")

func (c component) spdx() *spdx.Package {
	p := &spdx.Package{
		PackageSPDXIdentifier:   common.ElementID(c.id),
		PackageName:             c.name,
		PackageVersion:          c.version,
		PackageFileName:         c.path,
		PrimaryPackagePurpose:   c.purpose,
		PackageDownloadLocation: cmp.Or(c.download, "NOASSERTION"),
		PackageLicenseDeclared:  cmp.Or(c.licence, "NOASSERTION"),
	}
	if c.supplier != "" {
		p.PackageSupplier = &common.Supplier{
			SupplierType: "Organization", Supplier: oneLine.Replace(c.supplier),
		}
	}
	if c.source != "" {
		p.PackageSourceInfo = "built package from: " + c.source // trivy reads it
	}
	for _, s := range c.sums {
		algorithm := common.ChecksumAlgorithm(s.algorithm)
		p.PackageChecksums = append(p.PackageChecksums, common.Checksum{Algorithm: algorithm, Value: s.hex})
	}
	var lines []string
	for _, f := range c.facts {
		lines = append(lines, f.name+": "+f.value)
	}
	p.PackageComment = strings.Join(lines, "\n")
	for _, ref := range []spdx.PackageExternalReference{
		{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: c.purl},
		{Category: "SECURITY", RefType: "cpe23Type", Locator: c.cpe},
	} {
		if ref.Locator != "" {
			p.PackageExternalReferences = append(p.PackageExternalReferences, &ref)
		}
	}
	return p
}
