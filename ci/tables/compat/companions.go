package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// withCompanions returns the cells of the companions that can be compiled beside a driver: those whose
// sources are an archive, or a package of the cell's system. The cell is the driver's with all patches. It
// has none if the driver itself does not work there.
func withCompanions(m *matrix.Matrix, c *cell) (all []*cell, err error) {
	if c.Rules != "" {
		return nil, nil
	}
	for _, companion := range m.Companions {
		if !slices.Contains(companion.Archs, arch) || companion.Archive == nil && companion.Debian.Systems[c.System] == "" {
			continue
		}
		beside := *c
		beside.Companion, beside.Result = &companion, nil
		if beside.Rules, err = against(m, &beside); err != nil {
			return nil, err
		}
		all = append(all, &beside)
	}
	return all, nil
}

// companionMatrix writes a copy of a matrix with the companion of a cell and without its limits: the compile
// says which drivers it fits. The matrix itself serves a cell without a companion.
func (l *laboratory) companionMatrix(c *cell, file string) (string, error) {
	if c.Companion == nil {
		return file, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	o := c.Companion
	var b strings.Builder
	fmt.Fprintf(&b, "%scompanions:\n  - name: %s\n    version: %s\n    archs: [%s]\n    licence: %s\n    reason: %q\n", text, o.Name, o.Version, arch, o.Licence, o.Reason)
	if o.Archive != nil {
		fmt.Fprintf(&b, "    archive: {url: %q, sha256: %s}\n", o.Archive.URL, o.Archive.SHA256)
	} else {
		fmt.Fprintf(&b, "    debian: {package: %s, systems: {%s: %q}}\n", o.Debian.Package, c.System, o.Debian.Systems[c.System])
	}
	name := fmt.Sprintf("%s-%s-%s-%s.yaml", strings.TrimSuffix(file, ".yaml"), c.System, o.Name, o.Version)
	return name, write(name, b.String())
}

const companionsHead = `
## Companions

The [companions](build.md#matrixyaml) of the matrix, compiled against nvidia, beside nvidia-uvm. Debian's packages are compiled on the system that has them. The drivers are those
that work on its kernel, with the patches of the matrix, also drivers that the matrix does not allow the companion for: it allows what a test loaded or
what Debian has beside the driver, and a module that compiles can still fail on a node
([which kernel modules](gpudirect.md#which-kernel-modules)). What the matrix allows has to compile. gdrdrv has rows if the matrix has: NVIDIA's archive has no public checksum,
so ` + "`make compat`" + ` compiles it only with a matrix of yours that has [a row for it](gpudirect.md#build), given as ` + "`--matrix`" + `.

| kernel | driver | flavour | patches of the matrix | companion | source of the driver | result | first error | matrix |
|---|---|---|---|---|---|---|---|---|
`

// renderCompanions writes the rows of the cells with companions. differs: the matrix allows one that does not
// compile.
func renderCompanions(b *strings.Builder, cells []*cell) (differs bool) {
	b.WriteString(companionsHead)
	for _, c := range cells {
		source, outcome, detail := "", "not run", ""
		if c.Result != nil {
			source, outcome, detail = c.Result.Source, outcomeOf(c), c.Result.Error
		}
		differs = differs || outcome == fails && c.Rules == ""
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s %s | %s | %s | %s | %s |\n", c.series(), c.Driver.version, c.Flavour, cmp.Or(c.Patches, "none"),
			c.Companion.Name, c.Companion.Version, source, outcome, code(detail), cmp.Or(escape(c.Rules), "fits"))
	}
	return differs
}
