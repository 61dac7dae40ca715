// Command validate reads a document with the library of the format's own project and prints what it
// refuses:
//
//	validate spdx|cyclonedx|statement|provenance|openvex|layout FILE
//
// spdx is SPDX JSON, cyclonedx CycloneDX JSON, statement any in-toto statement v1, provenance one
// with an SLSA provenance v1, openvex an OpenVEX document. A member that the library does not know
// is an error too. layout is the folder of an OCI layout: image-spec's schemas judge its index and
// every index, manifest and configuration that it leads to.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/CycloneDX/cyclonedx-go"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/openvex/go-vex/pkg/vex"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
)

var kinds = map[string]func(path string) error{
	"spdx":       document(validateSPDX),
	"cyclonedx":  document(validateCycloneDX),
	"statement":  document(validateStatement),
	"provenance": document(validateProvenance),
	"openvex":    document(validateOpenVEX),
	"layout":     validateLayout,
}

// document reads a file for its validation.
func document(validate func([]byte) error) func(path string) error {
	return func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return validate(data)
	}
}

func main() {
	if len(os.Args) != 3 || kinds[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: validate spdx|cyclonedx|statement|provenance|openvex|layout FILE")
		os.Exit(2)
	}
	err := kinds[os.Args[1]](os.Args[2])
	if err != nil {
		fmt.Fprintf(os.Stderr, "validate: %s: %v\n", os.Args[2], err)
		os.Exit(1)
	}
}

func validateSPDX(data []byte) error {
	doc, err := spdx.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		return err
	}
	var again bytes.Buffer
	if err := spdx.Write(doc, &again); err != nil {
		return err
	}
	return lost(data, again.Bytes())
}

func validateCycloneDX(data []byte) error {
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return err
	}
	var again bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&again, cyclonedx.BOMFileFormatJSON).EncodeVersion(&bom, bom.SpecVersion); err != nil {
		return err
	}
	return lost(data, again.Bytes())
}

func statement(data []byte) (*intoto.Statement, error) {
	s := &intoto.Statement{}
	if err := protojson.Unmarshal(data, s); err != nil { // refuses unknown members
		return nil, err
	}
	return s, s.Validate()
}

func validateStatement(data []byte) error {
	_, err := statement(data)
	return err
}

func validateProvenance(data []byte) error {
	s, err := statement(data)
	if err != nil {
		return err
	}
	if s.PredicateType != "https://slsa.dev/provenance/v1" {
		return fmt.Errorf("the predicate is a %s", s.PredicateType)
	}
	predicate, err := s.Predicate.MarshalJSON()
	if err != nil {
		return err
	}
	p := &provenance.Provenance{}
	if err := protojson.Unmarshal(predicate, p); err != nil {
		return err
	}
	return p.Validate()
}

func validateOpenVEX(data []byte) error {
	doc, err := vex.Parse(data)
	if err != nil {
		return err
	}
	if doc.ID == "" || doc.Author == "" || doc.Timestamp == nil || len(doc.Statements) == 0 {
		return fmt.Errorf("@id, author, timestamp and statements are needed")
	}
	for i := range doc.Statements {
		if err := doc.Statements[i].Validate(); err != nil {
			return fmt.Errorf("statement %d: %w", i, err)
		}
	}
	var again bytes.Buffer
	if err := doc.ToJSON(&again); err != nil {
		return err
	}
	return lost(data, again.Bytes())
}
