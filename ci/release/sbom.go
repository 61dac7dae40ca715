package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const unknown = "NOASSERTION"

// sbom writes what the programs were made of, as Go wrote it into them: one package for each
// program, and one for each Go module.
func (m *maker) sbom(context.Context) error {
	d := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "driver-build-" + m.source.bare(),
		DocumentNamespace: "https://" + modulePath + "/releases/" + m.source.module.Version + "/" + m.source.commit,
		CreationInfo: &spdx.CreationInfo{
			Created:  m.source.time.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "driver-container-release"}},
		},
	}
	seen := map[common.ElementID]bool{}
	for _, f := range m.files {
		err := addProgram(d, seen, f, m.source)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", f.name, f.platform, err)
		}
	}
	for _, p := range d.Packages {
		p.PackageDownloadLocation = unknown
		p.PackageLicenseConcluded = unknown
		p.PackageLicenseDeclared = unknown
	}
	out, err := os.Create(filepath.Join(m.out, "driver-build-"+m.source.bare()+".spdx.json"))
	if err != nil {
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	return errors.Join(e.Encode(d), out.Close())
}

func addProgram(d *spdx.Document, seen map[common.ElementID]bool, f program, s source) error {
	info, err := buildinfo.ReadFile(f.path)
	if err != nil {
		return err
	}
	if info.Main.Sum != s.module.Sum {
		const other = "it was made of other content of %s: %s, not %s; Go's module cache has a version of that name"
		return fmt.Errorf(other, s.module.Version, info.Main.Sum, s.module.Sum)
	}
	sum, err := digest(f.path)
	if err != nil {
		return err
	}
	id := identifier("Program-" + f.name + "-" + f.platform.String())
	d.Packages = append(d.Packages, &spdx.Package{
		PackageName: f.name, PackageVersion: s.bare(), PackageSPDXIdentifier: id,
		PackageComment:   "for " + f.platform.String() + ", compiled with " + info.GoVersion,
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
	})
	relate(d, "DOCUMENT", common.TypeRelationshipDescribe, id)
	for _, dep := range append([]*debug.Module{&info.Main}, info.Deps...) {
		dep = cmp.Or(dep.Replace, dep)
		module := identifier("Module-" + dep.Path + "-" + dep.Version)
		relate(d, id, common.TypeRelationshipContains, module)
		if seen[module] {
			continue
		}
		seen[module] = true
		d.Packages = append(d.Packages, &spdx.Package{
			PackageName: dep.Path, PackageVersion: dep.Version, PackageSPDXIdentifier: module,
			PackageExternalReferences: []*spdx.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
				Locator: "pkg:golang/" + dep.Path + "@" + dep.Version,
			}},
		})
	}
	return nil
}

func relate(d *spdx.Document, from common.ElementID, kind string, to common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA:         common.DocElementID{ElementRefID: from},
		RefB:         common.DocElementID{ElementRefID: to},
		Relationship: kind,
	})
}

var notInIdentifier = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// identifier makes an SPDX identifier of a text.
func identifier(text string) common.ElementID {
	return common.ElementID(notInIdentifier.ReplaceAllString(text, "-"))
}
