package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const head = `# Drivers and kernels, compiled

Written by ` + "`make compat`" + `; do not edit. driver-build compiled every driver that Debian packages for the newest kernel of each Debian release,
with the release's own compiler. Where that Debian has packages of the driver, they are the source; elsewhere it is an archive made from
the same packages. In those of 535 and 550 the sources have Debian's patches; the older ones are NVIDIA's as they are, with the patches
beside them, which only Debian's DKMS packages apply.
`

// render writes the page. differs: the matrix and the compiler do not agree somewhere, and nobody has said why.
func render(cells []*cell) (text string, differs bool) {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "\nCompiled %s, for amd64.\n\n", dates(cells))
	b.WriteString("| system | kernel | package | compiler |\n|---|---|---|---|\n")
	for i, c := range cells {
		if i == 0 || cells[i-1].System != c.System {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.System, c.Kernel.Release, c.Kernel.Version, cmp.Or(compilerUsed(cells, c.System), "not known"))
		}
	}
	b.WriteString("\n## What the compiler says\n\n" +
		"The error is the first one of the compile. Nothing is loaded here: what compiles can still be refused by the kernel, and where the lab has seen that, this says so.\n\n" +
		"| kernel | driver | flavour | source | patched | result | first error |\n|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		source, outcome, detail := "", "not run", ""
		if c.Result != nil {
			source, outcome, detail = c.Result.Source, outcomeOf(c), c.Result.Error
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.series(), c.Driver.version, c.Flavour, source, yes(c.Driver.patched), outcome, code(detail))
	}
	b.WriteString("\n## What the matrix says\n\n" +
		"`matrix.yaml` is right where it lets through what compiles and is not refused, and nothing else. Where it is not, this table says why.\n\n" +
		"| kernel | driver | flavour | matrix | agrees | why |\n|---|---|---|---|---|---|\n")
	for _, c := range cells {
		agrees, why := agreement(c)
		differs = differs || agrees == "no" && why == ""
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.series(), c.Driver.version, c.Flavour, cmp.Or(escape(c.Rules), "works"), agrees, escape(why))
	}
	return b.String(), differs
}

// outcomeOf is the result for people.
func outcomeOf(c *cell) string {
	r := c.Result
	switch {
	case r.Outcome == compiles && find(refused, c) != "":
		return "compiles, but " + find(refused, c)
	case r.Outcome == trouble:
		return "not known: driver-build failed of something else"
	case r.Compute == compiles:
		return "fails; nvidia and nvidia-uvm alone (`--modules nvidia,nvidia-uvm`) compile"
	}
	return r.Outcome
}

// agreement compares the matrix with what can be used: what compiles and is not refused.
func agreement(c *cell) (agrees, why string) {
	if c.Result == nil || c.Result.Outcome == trouble {
		return "not known", ""
	}
	usable := c.Result.Outcome == compiles && find(refused, c) == ""
	if usable == (c.Rules == "") {
		return "yes", ""
	}
	return "no", find(reasons, c)
}

// compilerUsed is the compiler of a system, as any of its compiles named it.
func compilerUsed(cells []*cell, system string) string {
	for _, c := range cells {
		if c.System == system && c.Result != nil && c.Result.Compiler != "" {
			return c.Result.Compiler
		}
	}
	return ""
}

// dates is the day, or the first and the last one, on which cells were compiled.
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

// code is text of a program in a cell of a table.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + escape(strings.ReplaceAll(text, "`", "'")) + "`"
}
