// Command trivy reads a bill of materials with the library of "trivy sbom". It prints the system by
// which a scan chooses its advisories, an empty line without one, and for each package that a scan
// looks at its package URL and, in a line of its own, the source by whose name it is looked for:
//
//	trivy FILE
//
// Trivy 0.74 as a whole needs encoding/json/v2, which Go 1.26 has as an experiment only. It builds with
// GOEXPERIMENT=jsonv2, in more than half an hour of a machine with two cores in use.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	fanal "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/aquasecurity/trivy/pkg/sbom"
)

func main() {
	err := list(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "trivy: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func list(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	format, err := sbom.DetectFormat(file)
	if err != nil {
		return err
	}
	_, err = file.Seek(0, 0)
	if err != nil {
		return err
	}
	bom, err := sbom.Decode(context.Background(), file, format)
	if err != nil {
		return err
	}
	system := bom.Metadata.OS
	if system == nil {
		system = &fanal.OS{}
	}
	fmt.Println(strings.TrimSpace(string(system.Family) + " " + system.Name))
	for _, installed := range bom.Packages {
		show(installed.Packages)
	}
	for _, application := range bom.Applications {
		show(application.Packages)
	}
	return nil
}

func show(packages []fanal.Package) {
	for _, p := range packages {
		fmt.Println(p.Identifier.PURL)
		fmt.Println("source", p.SrcName)
	}
}
