package main

import (
	"cmp"
	"slices"
	"strings"
)

// page is what the page has before its rows, with the heads of its tables.
const (
	systemsHead = `# Drivers and kernels, compiled

After this page you know which driver compiles on which kernel of Debian; a look-up takes a minute. ` + "`make compat`" + ` writes it; do not edit it.
driver-build compiled every driver that Debian packages for the newest kernel of each Debian
release, for amd64, with the release's own compiler. The source is the release's packages of the driver. If the release has none, the source is
an archive made from another release's packages of the driver. The sources of 535 and 550 contain Debian's patches. The older ones are NVIDIA's
without changes; their patches lie beside them, and only Debian's DKMS packages apply these. A driver with
[patches in the matrix](build.md#patches) is compiled without them (--no-patches) and with them, on every kernel: the patched sources
have to compile on those too that do not need them.

| system | kernel | package | compiler |
|---|---|---|---|
`
	cellsHead = `
The error is the first one of the compile. ` + "`make compat`" + ` loads no module: the kernel can still refuse one that compiles. The table says so if
the lab has seen it. ` + "`matrix.yaml`" + ` agrees if it allows exactly the combinations that compile and that the kernel does not refuse: a test compares both.

| system | driver | flavour | source | patches of the matrix | result | matrix | agrees |
|---|---|---|---|---|---|---|---|
`
)

// refused are modules that compile and that the kernel then refuses to load, as far as a test has
// seen it, by system and driver.
var refused = map[string]string{
	"debian11 418.226.00": "the kernel refuses nvidia-uvm: modules that depend on a proprietary one may no longer use radix_tree_preloads " +
		"(seen by Test10LoadsInPart of ci/lab/scenarios)",
}

// The results in words for readers.
const (
	compiles = "compiles"
	fails    = "fails: "
	notRun   = "not run"
)

// escaped are what a cell of a table cannot have.
var escaped, plain = strings.NewReplacer("|", `\|`, "`", "'"), strings.NewReplacer(`\|`, "|")

// render writes the page. differs: a cell's result is not what the matrix says.
func render(cells []*cell) (text string, differs bool) {
	var b strings.Builder
	row := func(columns ...string) { b.WriteString("| " + strings.Join(columns, " | ") + " |\n") }
	b.WriteString(systemsHead)
	for i, c := range cells {
		if i == 0 || cells[i-1].System != c.System {
			row(
				c.System,
				c.Kernel.Release,
				c.Kernel.Version,
				cmp.Or(c.Kernel.Compiler, "not known"),
			)
		}
	}
	b.WriteString(cellsHead)
	for _, c := range cells {
		source := ""
		result := notRun
		agrees := "not known"
		if c.Result != nil {
			source = c.Result.Source
			result = compiles
			agrees = "yes"
			switch {
			case c.Result.Error != "":
				result = fails + "`" + escaped.Replace(c.Result.Error) + "`"
			case refused[c.System+" "+c.Driver.version] != "":
				result += ", but " + refused[c.System+" "+c.Driver.version]
			}
			if (result == compiles) != (c.Rules == "") {
				agrees = "no"
				differs = true
			}
		}
		row(
			c.System,
			c.Driver.version,
			c.Flavour,
			source,
			cmp.Or(c.Patches, "none"),
			result,
			cmp.Or(escaped.Replace(c.Rules), "works"),
			agrees,
		)
	}
	return b.String(), differs
}

// parse returns the kernels of a page by system, and its results by the names of their cells.
func parse(page string) (kernels map[string]kernel, results map[string]*result) {
	kernels = map[string]kernel{}
	results = map[string]*result{}
	for line := range strings.Lines(page) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		switch system := columns[0]; {
		case !slices.Contains(systems, system):
		case len(columns) == 4:
			kernels[system] = kernel{Release: columns[1], Version: columns[2], Compiler: columns[3]}
		case len(columns) == 8 && columns[5] != notRun:
			problem, failed := strings.CutPrefix(columns[5], fails)
			if !failed {
				problem = ""
			}
			name := strings.Join(
				[]string{system, kernels[system].Release, columns[1], columns[2], columns[4]},
				" ",
			)
			results[strings.TrimSuffix(name, " none")] = &result{
				Error:  plain.Replace(strings.Trim(problem, "`")),
				Source: columns[3],
			}
		}
	}
	return kernels, results
}
