package vex

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/recipe"
)

var vulnerabilityName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{2,99}$`)

// Author is who makes a statement, and when.
type Author struct {
	Name string
	Time time.Time // that of the image, where equal builds shall give equal documents
	Tool recipe.BuilderInfo
}

// BuildOnly makes a document with a statement for each of the vulnerabilities that the caller names: packages
// that only the build used are not in the images, so the images are not affected through them
// (component_not_present). Images and packages are package URLs, as sbom.Model.PURLs returns them. The
// statement is about these packages alone, so it stays true if the same vulnerability is in another package,
// which the image has: scanners still report that one.
//
// This package knows no vulnerability and asks no database. A statement "for all" is not possible in the
// format, and would hide those of next year.
func BuildOnly(images, buildOnly, vulnerabilities []string, by Author) (*Document, error) {
	if len(images) == 0 || len(buildOnly) == 0 {
		return nil, errors.New("no package was used by the build alone: there is nothing to state")
	}
	if len(vulnerabilities) == 0 {
		return nil, errors.New("name the vulnerabilities, such as CVE-2024-1234: driver-build does not know any")
	}
	var parts, products []Product
	for _, p := range unique(buildOnly) {
		parts = append(parts, Product{ID: p, Identifiers: map[string]string{"purl": p}})
	}
	for _, p := range unique(images) {
		// Without qualifiers the package URL matches under every tag and in every registry.
		name, _, _ := strings.Cut(p, "?")
		products = append(products, Product{ID: name, Identifiers: map[string]string{"purl": name}, Subcomponents: parts})
	}
	d := &Document{
		Context: Context, Author: by.Name, Timestamp: by.Time.UTC().Format(time.RFC3339), Version: 1, Tooling: "driver-build " + by.Tool.Version,
	}
	for _, name := range unique(vulnerabilities) {
		if !vulnerabilityName.MatchString(name) {
			return nil, fmt.Errorf("%.100q is no name of a vulnerability, such as CVE-2024-1234", name)
		}
		d.Statements = append(d.Statements, Statement{
			Vulnerability: Vulnerability{Name: name}, Products: products, Status: notAffected, Justification: componentNotPresent,
			Impact: "The build used these packages to compile kernel modules. They are not in the image.",
		})
	}
	content, err := d.Encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	d.ID = recipe.ProjectURL + "/vex/" + hex.EncodeToString(sum[:])
	return d, nil
}

func unique(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
