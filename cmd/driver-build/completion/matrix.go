package completion

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/gpulist"
	"github.com/driver-container/driver-container/images/matrix"
)

// systems offers the systems of the matrix: those that the drivers on the command line work on.
func systems(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) { //nolint:unparam // a cobra.CompletionFunc
	m, ok := load(c)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	working := pairs(m, matrix.Selection{Drivers: given(c, "driver"), Archs: given(c, "arch")})
	var all []string
	for _, s := range m.Systems {
		if working == nil || slices.ContainsFunc(working, func(p batch.Pair) bool { return p.System == s.ID }) {
			all = append(all, s.ID)
		}
	}
	return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
}

// drivers offers the drivers of the matrix with their branches: those that work on the systems on the command
// line.
func drivers(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) { //nolint:unparam // a cobra.CompletionFunc
	m, ok := load(c)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	working := pairs(m, matrix.Selection{Systems: given(c, "os"), Archs: given(c, "arch")})
	var all []string
	for _, d := range m.Drivers {
		if working == nil || slices.ContainsFunc(working, func(p batch.Pair) bool { return p.Driver == d.Version }) {
			all = append(all, d.Version+"\t"+d.Branch)
		}
	}
	return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
}

// branches offers the branches that the matrix has drivers of.
func branches(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var all []string
	if m, ok := load(c); ok {
		for _, d := range m.Drivers {
			if !slices.Contains(all, d.Branch) {
				all = append(all, d.Branch)
			}
		}
	}
	return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
}

// gpus offers generations, and the names of GPUs when one is begun.
func gpus(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	all := gpulist.Generations()
	for _, g := range gpulist.All() {
		if name := strings.TrimPrefix(g.Name, "NVIDIA "); begun != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
}

// load reads the matrix that the command line means. A matrix with mistakes has nothing to offer: the command
// itself reports them.
func load(c *cobra.Command) (*matrix.Matrix, bool) {
	file := ""
	if f := c.Flags().Lookup("matrix"); f != nil {
		file = f.Value.String()
	}
	m, err := batch.ReadMatrix(file, drivercontainer.Matrix, drivercontainer.Patches)
	return m, err == nil
}

// given are the values of a flag that are on the command line.
func given(c *cobra.Command, name string) []string {
	all, err := c.Flags().GetStringSlice(name)
	if err != nil { // the command has no such flag
		return nil
	}
	return all
}

// pairs are those of a selection that can be built. It is nil if the selection names something that the
// matrix does not have, or nothing.
func pairs(m *matrix.Matrix, s matrix.Selection) []batch.Pair {
	if len(s.Systems)+len(s.Drivers)+len(s.Archs) == 0 {
		return nil
	}
	all, err := batch.Pairs(m, s)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(p batch.Pair) bool { return p.Excluded != "" })
}
