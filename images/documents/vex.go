package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// VEXType is that of an attestation with such a document, as cosign and trivy look for it. It has no
	// version: with "/v0.2.0" at its end `cosign verify-attestation --type openvex` does not find it.
	VEXType = "https://openvex.dev/ns"
	// VEXContext is the version of the format.
	VEXContext = "https://openvex.dev/ns/v0.2.0"
)

// Bounds of a document that is read.
const (
	maxVEX        = 4 << 20
	maxStatements = 10_000
	maxProducts   = 20_000 // of a statement, with their parts
)

// ErrVEX means that bytes are no OpenVEX document that can be attached to the image.
var ErrVEX = errors.New("not a valid OpenVEX document for this image")

// VEX is a document of OpenVEX.
type VEX struct {
	Context     string      `json:"@context"`
	ID          string      `json:"@id"`
	Author      string      `json:"author"`
	Role        string      `json:"role,omitempty"`
	Timestamp   string      `json:"timestamp"`
	LastUpdated string      `json:"last_updated,omitempty"`
	Version     int         `json:"version"`
	Tooling     string      `json:"tooling,omitempty"`
	Statements  []Statement `json:"statements"`
}

// Statement says how one vulnerability concerns products.
type Statement struct {
	ID              string        `json:"@id,omitempty"`
	Version         int           `json:"version,omitempty"`
	Vulnerability   Vulnerability `json:"vulnerability"`
	Timestamp       string        `json:"timestamp,omitempty"`
	LastUpdated     string        `json:"last_updated,omitempty"`
	Products        []Product     `json:"products"`
	Status          string        `json:"status"`
	Supplier        string        `json:"supplier,omitempty"`
	StatusNotes     string        `json:"status_notes,omitempty"`
	Justification   string        `json:"justification,omitempty"`
	Impact          string        `json:"impact_statement,omitempty"`
	Action          string        `json:"action_statement,omitempty"`
	ActionTimestamp string        `json:"action_statement_timestamp,omitempty"`
}

// Vulnerability names one: "CVE-2024-1234".
type Vulnerability struct {
	ID          string   `json:"@id,omitempty"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`
}

// Product is an image or a package, and its parts.
type Product struct {
	ID            string            `json:"@id,omitempty"`
	Identifiers   map[string]string `json:"identifiers,omitempty"` // "purl", "cpe22", "cpe23"
	Hashes        map[string]string `json:"hashes,omitempty"`
	Subcomponents []Product         `json:"subcomponents,omitempty"`
}

// The statuses, and the justifications of not_affected.
const (
	notAffected         = "not_affected"
	affected            = "affected"
	fixed               = "fixed"
	underInvestigation  = "under_investigation"
	componentNotPresent = "component_not_present"
)

var justifications = []string{
	componentNotPresent, "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
	"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist",
}

// VEXSubject is what a document may speak of.
type VEXSubject struct {
	Digests  []string // of the image, of its index: "sha256:..."
	Packages []string // package URLs of its parts: those of its SBOM
}

// ReadVEX reads a document and checks it strictly: fields, status, justification, times, and that each product
// is the image (its digest is in the product's id, package URL or hashes) or one of its packages. A scanner
// ignores what it cannot use without a word, so a mistake would be found by nobody. Errors are ErrVEX.
func ReadVEX(data []byte, about VEXSubject) (*VEX, error) {
	if len(data) > maxVEX {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrVEX, maxVEX)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var doc VEX
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVEX, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows its end", ErrVEX)
	}
	if err := doc.check(about); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVEX, err)
	}
	return &doc, nil
}

func (d *VEX) check(about VEXSubject) error {
	switch {
	case d.Context != VEXContext:
		return fmt.Errorf("@context is %.100q, this program reads %s", d.Context, VEXContext)
	case d.ID == "" || d.Author == "":
		return errors.New("it needs @id and author")
	case d.Version < 1:
		return errors.New("its version is not 1 or more")
	case len(d.Statements) == 0 || len(d.Statements) > maxStatements:
		return fmt.Errorf("it has %d statements, not 1 to %d", len(d.Statements), maxStatements)
	}
	if err := errors.Join(checkTime("timestamp", d.Timestamp, true), checkTime("last_updated", d.LastUpdated, false)); err != nil {
		return err
	}
	known := map[string][]string{}
	for _, p := range about.Packages {
		name, qualifiers, _ := strings.Cut(p, "?")
		known[name] = append(known[name], qualifiers)
	}
	for n, s := range d.Statements {
		if err := s.check(about.Digests, known); err != nil {
			return fmt.Errorf("statement %d (%.80s): %w", n+1, s.Vulnerability.Name, err)
		}
	}
	return nil
}

func checkTime(name, text string, needed bool) error {
	if text == "" && !needed {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return fmt.Errorf("%s %.80q is no time such as 2026-01-31T12:00:00Z", name, text)
	}
	return nil
}

func (s *Statement) check(digests []string, packages map[string][]string) error {
	if s.Vulnerability.Name == "" {
		return errors.New("it names no vulnerability")
	}
	for name, text := range map[string]string{"timestamp": s.Timestamp, "last_updated": s.LastUpdated,
		"action_statement_timestamp": s.ActionTimestamp} {
		if err := checkTime(name, text, false); err != nil {
			return err
		}
	}
	switch s.Status {
	case notAffected:
		if s.Justification == "" && s.Impact == "" {
			return errors.New("not_affected needs a justification or an impact_statement")
		}
	case affected:
		if s.Action == "" {
			return errors.New("affected needs an action_statement")
		}
	case fixed, underInvestigation:
	default:
		return fmt.Errorf("status %.80q is none of not_affected, affected, fixed, under_investigation", s.Status)
	}
	if s.Justification != "" && (s.Status != notAffected || !slices.Contains(justifications, s.Justification)) {
		return fmt.Errorf("justification %.80q is none of %s, or the status is not not_affected", s.Justification, strings.Join(justifications,
			", "))
	}
	return s.checkProducts(digests, packages)
}

func (s *Statement) checkProducts(digests []string, packages map[string][]string) error {
	count := len(s.Products)
	for _, p := range s.Products {
		count += len(p.Subcomponents)
	}
	if len(s.Products) == 0 || count > maxProducts {
		return fmt.Errorf("it names %d products, not 1 to %d", count, maxProducts)
	}
	for _, p := range s.Products {
		isImage := p.isImage(digests)
		if !isImage && !p.isPackage(packages) {
			return fmt.Errorf("product %.200q is neither the image (%s) nor one of its packages", p.name(), strings.Join(digests, ", "))
		}
		for _, part := range p.Subcomponents {
			if len(part.Subcomponents) > 0 {
				return fmt.Errorf("subcomponent %.200q has subcomponents", part.name())
			}
			if !part.isPackage(packages) {
				return fmt.Errorf("subcomponent %.200q is not one of the image's packages", part.name())
			}
		}
	}
	return nil
}

func (p Product) name() string {
	if purl := p.Identifiers["purl"]; purl != "" {
		return purl
	}
	return p.ID
}

func (p Product) isImage(digests []string) bool {
	return slices.ContainsFunc(digests, func(digest string) bool {
		return p.Hashes["sha-256"] == strings.TrimPrefix(digest, "sha256:") || slices.ContainsFunc([]string{p.ID, p.Identifiers["purl"]},
			func(name string) bool {
				version, _, _ := strings.Cut(name[strings.LastIndexByte(name, '@')+1:], "?")
				return strings.Replace(version, "%3A", ":", 1) == digest
			})
	})
}

// isPackage reports whether a product is one of the image's packages. It may leave qualifiers out, as
// scanners accept; those that it has must be the package's.
func (p Product) isPackage(packages map[string][]string) bool {
	name, qualifiers, some := strings.Cut(p.name(), "?")
	return slices.ContainsFunc(packages[name], func(have string) bool {
		all := strings.Split(have, "&")
		return !some || !slices.ContainsFunc(strings.Split(qualifiers, "&"), func(q string) bool { return !slices.Contains(all, q) })
	})
}
