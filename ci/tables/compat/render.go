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
`

// render writes the page. differs: a cell's result is not what the matrix says.
func render(all []*cell) (text string, differs bool) {
	var b strings.Builder
	var cells, companions []*cell
	for _, c := range all {
		if c.Companion == nil {
			cells = append(cells, c)
		} else {
			companions = append(companions, c)
		}
	}
	b.WriteString(head)
	fmt.Fprintf(&b, "\nCompiled %s, for amd64.\n\n", dates(all))
	b.WriteString("| system | kernel | package | compiler |\n|---|---|---|---|\n")
	for i, c := range cells {
		if i == 0 || cells[i-1].System != c.System {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.System, c.Kernel.Release, c.Kernel.Version, cmp.Or(compilerUsed(cells, c.System), "not known"))
		}
	}
	b.WriteString("\n## What the compiler says\n\n" +
		"The error is the first one of the compile. `make compat` loads no module: the kernel can still refuse one that compiles. The table says so if the lab has seen it.\n\n" +
		"| kernel | driver | flavour | source | Debian's patches | patches of the matrix | result | first error |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		source, outcome, detail := "", "not run", ""
		if c.Result != nil {
			source, outcome, detail = c.Result.Source, outcomeOf(c), c.Result.Error
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			c.series(), c.Driver.version, c.Flavour, source, yes(c.Driver.patched), cmp.Or(c.Patches, "none"), outcome, code(detail))
	}
	b.WriteString("\n## What the matrix says\n\n" +
		"`matrix.yaml` agrees if it allows exactly the combinations that compile and that the kernel does not refuse. A test compares both.\n\n" +
		"| kernel | driver | flavour | patches of the matrix | matrix | agrees |\n|---|---|---|---|---|---|\n")
	for _, c := range cells {
		agrees := agreement(c)
		differs = differs || agrees == "no"
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.series(), c.Driver.version, c.Flavour, cmp.Or(c.Patches, "none"), cmp.Or(escape(c.Rules), "works"), agrees)
	}
	differs = renderCompanions(&b, companions) || differs
	return b.String(), differs
}

// compilesBut begins the result of modules that compile and that the kernel refuses.
const compilesBut = "compiles, but "

// outcomeOf returns the result in words for readers.
func outcomeOf(c *cell) string {
	r := c.Result
	switch {
	case r.Outcome == compiles && refusal(c) != "":
		return compilesBut + refusal(c)
	case r.Outcome == trouble:
		return "not known: driver-build failed for another reason"
	case r.Compute == compiles:
		return "fails; nvidia and nvidia-uvm alone (`--modules nvidia,nvidia-uvm`) compile"
	}
	return r.Outcome
}

// agreement compares the matrix with what can be used: modules that compile and that the kernel does not
// refuse.
func agreement(c *cell) string {
	if c.Result == nil || c.Result.Outcome == trouble {
		return "not known"
	}
	usable := c.Result.Outcome == compiles && refusal(c) == ""
	return yes(usable == (c.Rules == ""))
}

// compilerUsed returns the compiler of a system, as any of the system's compiles named it.
func compilerUsed(cells []*cell, system string) string {
	for _, c := range cells {
		if c.System == system && c.Result != nil && c.Result.Compiler != "" {
			return c.Result.Compiler
		}
	}
	return ""
}

// dates returns the day on which cells were compiled, or the first and the last day.
func dates(cells []*cell) string {
	var days []string
	for _, c := range cells {
		if c.Result != nil {
			days = append(days, c.Result.Date)
		}
	}
	if len(days) == 0 {
		return "never"
	}
	first, last := slices.Min(days), slices.Max(days)
	if first == last {
		return "on " + first
	}
	return "from " + first + " to " + last
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// escape makes text fit into a cell of a table.
func escape(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// code formats a program's text for a cell of a table.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + escape(strings.ReplaceAll(text, "`", "'")) + "`"
}
