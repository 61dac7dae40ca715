package documents

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/releases"
)

// Statements returns a document of OpenVEX with what NVIDIA's bulletins say of the driver in images:
// the images are affected by each known CVE of it. Nothing says not_affected, because a bulletin does
// not say so either. Without a known CVE there is no document, which is an error.
func Statements(m Model, advisor releases.Advisor) ([]byte, error) {
	day := advisor.Day.UTC().Format(time.RFC3339)
	doc := vexDocument{
		Context:   vexContext,
		Author:    "driver-build, of NVIDIA's security bulletins",
		Timestamp: day,
		Tooling:   "driver-build " + m.Tool.Version,
		Version:   1,
	}
	for _, image := range m.Images {
		// Without a tag: scanners compare every qualifier, trivy knows no tags, grype that of its user.
		purl := imagePURL(m.name(), image.Digest, map[string]string{"arch": image.Arch})
		for _, v := range advisor.Vulnerabilities().Of(image.Driver) {
			action := "give the nodes a driver of a newer branch: no fix will come for " + releases.BranchOf(image.Driver)
			if v.Fixed != "" {
				action = "give the nodes an image of driver " + v.Fixed + " or newer"
			}
			doc.Statements = append(doc.Statements, vexStatement{
				Vulnerability: vexVulnerability{Name: v.CVE},
				Products:      []vexProduct{{ID: purl}},
				Status:        "affected",
				StatusNotes:   fmt.Sprintf("NVIDIA's bulletin %s of %s, CVSS %.1f", v.Bulletin, v.Date, v.Score),
				Action:        action,
			})
		}
	}
	if len(doc.Statements) == 0 {
		const format = "make statements about vulnerabilities: NVIDIA's bulletins name none of driver %s"
		return nil, failure.Errorf(failure.Some, format, m.Images[0].Driver)
	}
	content, err := json.Marshal(doc.Statements)
	if err != nil {
		return nil, err
	}
	doc.ID = fmt.Sprintf("https://openvex.dev/docs/public/vex-%x", sha256.Sum256(content))
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}
