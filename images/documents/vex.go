package documents

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/strictjson"
)

// VEXType is that of an attestation with a document of OpenVEX, as cosign and trivy look for it. It
// has no version: with "/v0.2.0" at its end `cosign verify-attestation --type openvex` does not
// find it.
const VEXType = "https://openvex.dev/ns"

const (
	vexContext = VEXType + "/v0.2.0" // the version of the format that is read
	maxVEX     = 4 << 20             // bytes
)

// vexDocument is a document of OpenVEX.
type vexDocument struct {
	Context     string         `json:"@context,omitempty"`
	ID          string         `json:"@id,omitempty"`
	Author      string         `json:"author,omitempty"`
	Role        string         `json:"role,omitempty"`
	Timestamp   string         `json:"timestamp,omitempty"`
	LastUpdated string         `json:"last_updated,omitempty"`
	Tooling     string         `json:"tooling,omitempty"`
	Version     int            `json:"version,omitempty"`
	Statements  []vexStatement `json:"statements,omitempty"`
}

// vexStatement says how one vulnerability concerns products.
type vexStatement struct {
	ID              string           `json:"@id,omitempty"`
	Version         int              `json:"version,omitempty"`
	Timestamp       string           `json:"timestamp,omitempty"`
	LastUpdated     string           `json:"last_updated,omitempty"`
	Status          string           `json:"status,omitempty"`
	StatusNotes     string           `json:"status_notes,omitempty"`
	Supplier        string           `json:"supplier,omitempty"`
	Justification   string           `json:"justification,omitempty"`
	Impact          string           `json:"impact_statement,omitempty"`
	Action          string           `json:"action_statement,omitempty"`
	ActionTimestamp string           `json:"action_statement_timestamp,omitempty"`
	Products        []vexProduct     `json:"products,omitempty"`
	Vulnerability   vexVulnerability `json:"vulnerability"`
}

type vexVulnerability struct {
	ID          string   `json:"@id,omitempty"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`
}

// vexProduct is an image or a package, and its parts.
type vexProduct struct {
	ID            string            `json:"@id,omitempty"`
	Identifiers   map[string]string `json:"identifiers,omitempty"` // "purl", "cpe22", "cpe23"
	Hashes        map[string]string `json:"hashes,omitempty"`
	Subcomponents []vexProduct      `json:"subcomponents,omitempty"`
}

var justifications = []string{
	"component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
	"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist",
}

// CheckVEX reads a document of OpenVEX strictly: fields, status, justification, times, and that
// each product is the image (one of digests, "sha256:...", is in the product's id, package URL or
// hashes) or one of the packages, by their package URLs. A scanner ignores what it cannot use
// without a word, so a mistake would be found by nobody. Errors are of kind failure.Usage.
func CheckVEX(data []byte, digests, packages []string) error {
	if err := checkVEX(data, digests, packages); err != nil {
		return failure.Errorf(failure.Usage, "not a valid OpenVEX document for this image: %w", err)
	}
	return nil
}

func checkVEX(data []byte, digests, packages []string) error {
	if len(data) > maxVEX {
		return fmt.Errorf("larger than %d bytes", maxVEX)
	}
	doc, err := strictjson.Decode[vexDocument](data, json.RejectUnknownMembers(true))
	if err != nil {
		return err
	}
	switch {
	case doc.Context != vexContext:
		return fmt.Errorf("@context is %.100q, this program reads %s", doc.Context, vexContext)
	case doc.ID == "" || doc.Author == "" || doc.Timestamp == "":
		return errors.New("it needs @id, author and timestamp")
	case doc.Version < 1:
		return errors.New("its version is not 1 or more")
	case len(doc.Statements) == 0:
		return errors.New("it has 0 statements")
	}
	err = checkTimes(doc.Timestamp, doc.LastUpdated)
	if err != nil {
		return err
	}
	known := map[string][]string{} // qualifiers of package URLs, by what is before them
	for _, p := range packages {
		name, qualifiers, _ := strings.Cut(p, "?")
		known[name] = append(known[name], qualifiers)
	}
	for n, s := range doc.Statements {
		err := s.check(digests, known)
		if err != nil {
			return fmt.Errorf("statement %d (%.80s): %w", n+1, s.Vulnerability.Name, err)
		}
	}
	return nil
}

func checkTimes(all ...string) error {
	for _, text := range all {
		if _, err := time.Parse(time.RFC3339, text); text != "" && err != nil {
			return fmt.Errorf("timestamp %.80q is no time such as 2026-01-31T12:00:00Z", text)
		}
	}
	return nil
}

func (s *vexStatement) check(digests []string, packages map[string][]string) error {
	complete, known := map[string]bool{
		"not_affected":        s.Justification+s.Impact != "",
		"affected":            s.Action != "",
		"fixed":               true,
		"under_investigation": true,
	}[s.Status]
	switch {
	case s.Vulnerability.Name == "":
		return errors.New("it names no vulnerability")
	case !known:
		return fmt.Errorf(
			"status %.80q is none of not_affected, affected, fixed, under_investigation", s.Status,
		)
	case !complete:
		return fmt.Errorf(
			"%s: not_affected needs a justification or an impact_statement, affected an action_statement",
			s.Status,
		)
	case s.Justification != "" && (s.Status != "not_affected" || !slices.Contains(justifications, s.Justification)):
		return fmt.Errorf(
			"justification %.80q is none of %s, or the status is not not_affected",
			s.Justification, strings.Join(justifications, ", "),
		)
	}
	err := checkTimes(s.Timestamp, s.LastUpdated, s.ActionTimestamp)
	if err != nil {
		return err
	}
	return s.checkProducts(digests, packages)
}

func (s *vexStatement) checkProducts(digests []string, packages map[string][]string) error {
	if len(s.Products) == 0 {
		return errors.New("it names 0 products")
	}
	for _, p := range s.Products {
		if !p.isImage(digests) && !p.isPackage(packages) {
			return fmt.Errorf(
				"product %.200q is neither the image (%s) nor one of its packages",
				p.name(),
				strings.Join(digests, ", "),
			)
		}
		for _, part := range p.Subcomponents {
			if len(part.Subcomponents) > 0 {
				return fmt.Errorf("subcomponent %.200q has subcomponents", part.name())
			}
			if !part.isPackage(packages) {
				return fmt.Errorf(
					"subcomponent %.200q is not one of the image's packages",
					part.name(),
				)
			}
		}
	}
	return nil
}

func (p vexProduct) name() string { return cmp.Or(p.Identifiers["purl"], p.ID) }

func (p vexProduct) isImage(digests []string) bool {
	return slices.ContainsFunc(digests, func(digest string) bool {
		return p.Hashes["sha-256"] == strings.TrimPrefix(digest, "sha256:") ||
			slices.ContainsFunc([]string{p.ID, p.Identifiers["purl"]},
				func(name string) bool {
					version, _, _ := strings.Cut(name[strings.LastIndexByte(name, '@')+1:], "?")
					return strings.Replace(version, "%3A", ":", 1) == digest
				})
	})
}

// isPackage reports whether a product is one of the image's packages. It may leave qualifiers out,
// as scanners accept; those that it has must be the package's.
func (p vexProduct) isPackage(packages map[string][]string) bool {
	name, qualifiers, some := strings.Cut(p.name(), "?")
	return slices.ContainsFunc(packages[name], func(have string) bool {
		all := strings.Split(have, "&")
		return !some ||
			!slices.ContainsFunc(
				strings.Split(qualifiers, "&"),
				func(q string) bool { return !slices.Contains(all, q) },
			)
	})
}
