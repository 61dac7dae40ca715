package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const head = `# Drivers and kernels, compiled

` + "`make compat`" + ` writes this page; do not edit it. driver-build compiled every driver that Debian packages for the newest kernel of each Debian
release, with the release's own compiler. The source is the release's packages of the driver. If the release has none, the source is an
archive made from another release's packages of the driver. The sources of 535 and 550 contain Debian's patches. The older ones are NVIDIA's
without changes; their patches lie beside them, and only Debian's DKMS packages apply these. A driver with
[patches in the matrix](build.md#patches) is compiled without them (--no-patches) and with them, on every kernel: the patched sources
have to compile on those too that do not need them.

Compiled %s, for amd64.

`

// results, says and companions begin the other sections; the last line of each is the head of a table.
const (
	results = `
## What the compiler says

` + "The error is the first one of the compile. `make compat` loads no module: the kernel can still refuse one that compiles. The table says so if the lab has seen it." + `

| kernel | driver | flavour | source | Debian's patches | patches of the matrix | result | first error |
`
	says = `
## What the matrix says

` + "`matrix.yaml` agrees if it allows exactly the combinations that compile and that the kernel does not refuse. A test compares both." + `

| kernel | driver | flavour | patches of the matrix | matrix | agrees |
`
	beside = `
## Companions

The [companions](build.md#matrixyaml) of the matrix, compiled against nvidia, beside nvidia-uvm. Debian's packages are compiled on the system that has them. The drivers are those
that work on its kernel, with the patches of the matrix, also drivers that the matrix does not allow the companion for: it allows what a test loaded or
what Debian has beside the driver, and a module that compiles can still fail on a node
([which kernel modules](hardware.md#gpudirect-storage-and-gdrcopy)). What the matrix allows has to compile. gdrdrv has rows if the matrix has: NVIDIA's archive has no public checksum,
so ` + "`make compat`" + ` compiles it only with a matrix of yours that has [a row for it](hardware.md#gpudirect-storage-and-gdrcopy), given as ` + "`--matrix`" + `.

| kernel | driver | flavour | patches of the matrix | companion | source of the driver | result | first error | matrix |
`
)

// refused are modules that compile and that the kernel then refuses to load, as far as a test has seen it, by
// kernel and driver.
var refused = map[string]string{
	"5.10 418.226.00": "the kernel refuses nvidia-uvm: modules that depend on a proprietary one may no longer use radix_tree_preloads " +
		"(seen by Test10LoadsInPart of ci/lab/scenarios)",
}

func refusal(c *cell) string { return refused[c.Kernel.series()+" "+c.Driver.version] }

// page is a text with tables.
type page struct{ strings.Builder }

// section begins a section whose text ends with the head of a table.
func (p *page) section(text string) {
	lines := strings.Split(text, "\n")
	p.WriteString(text + strings.Repeat("|---", strings.Count(lines[len(lines)-2], "|")-1) + "|\n")
}

func (p *page) row(columns ...string) { p.WriteString("| " + strings.Join(columns, " | ") + " |\n") }

// render writes the page. differs: a cell's result is not what the matrix says.
func render(all []*cell) (text string, differs bool) {
	p := &page{}
	at := slices.IndexFunc(all, func(c *cell) bool { return c.Companion != nil })
	if at < 0 {
		at = len(all)
	}
	cells, companions := all[:at], all[at:]
	p.section(fmt.Sprintf(head, dates(all)) + "| system | kernel | package | compiler |\n")
	for i, c := range cells {
		if i == 0 || cells[i-1].System != c.System {
			p.row(c.System, c.Kernel.Release, c.Kernel.Version, compilerUsed(cells, c.System))
		}
	}
	p.section(results)
	for _, c := range cells {
		source, outcome, detail := columns(c)
		p.row(c.Kernel.series(), c.Driver.version, c.Flavour, source, yes(c.Driver.patched), cmp.Or(c.Patches, "none"), outcome, detail)
	}
	p.section(says)
	for _, c := range cells {
		agrees := agreement(c)
		differs = differs || agrees == "no"
		p.row(c.Kernel.series(), c.Driver.version, c.Flavour, cmp.Or(c.Patches, "none"), cmp.Or(escape(c.Rules), "works"), agrees)
	}
	p.section(beside)
	for _, c := range companions {
		source, outcome, detail := columns(c)
		differs = differs || outcome == fails && c.Rules == ""
		p.row(c.Kernel.series(), c.Driver.version, c.Flavour, cmp.Or(c.Patches, "none"), c.Companion.Name+" "+c.Companion.Version,
			source, outcome, detail, cmp.Or(escape(c.Rules), "fits"))
	}
	return p.String(), differs
}

// The results in words for readers. compilesBut begins that of modules that compile and that the kernel refuses.
const (
	compilesBut = "compiles, but "
	fails       = "fails"
	notRun      = "not run"
)

func columns(c *cell) (source, outcome, detail string) {
	switch {
	case c.Result == nil:
		return "", notRun, ""
	case c.Result.Error != "":
		return c.Result.Source, fails, "`" + escape(strings.ReplaceAll(c.Result.Error, "`", "'")) + "`"
	case refusal(c) != "":
		return c.Result.Source, compilesBut + refusal(c), ""
	}
	return c.Result.Source, "compiles", ""
}

// agreement compares the matrix with what can be used: modules that compile and that the kernel does not
// refuse.
func agreement(c *cell) string {
	if c.Result == nil {
		return "not known"
	}
	usable := c.Result.Error == "" && refusal(c) == ""
	return yes(usable == (c.Rules == ""))
}

// compilerUsed returns the compiler of a system, as any of the system's compiles named it.
func compilerUsed(cells []*cell, system string) string {
	for _, c := range cells {
		if c.System == system && c.Result != nil && c.Result.Compiler != "" {
			return c.Result.Compiler
		}
	}
	return "not known"
}

// dates returns the day on which cells were compiled, or the first and the last day.
func dates(cells []*cell) string {
	var days []string
	for _, c := range cells {
		if c.Result != nil {
			days = append(days, c.Result.Date)
		}
	}
	slices.Sort(days)
	switch {
	case len(days) == 0:
		return "never"
	case days[0] == days[len(days)-1]:
		return "on " + days[0]
	}
	return "from " + days[0] + " to " + days[len(days)-1]
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// escape makes text fit into a cell of a table.
func escape(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
