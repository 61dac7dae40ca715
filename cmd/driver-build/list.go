package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
)

func newListCmd(a *session.App) *cobra.Command {
	var s flags.Selection
	var format string
	var excluded bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the pairs of the matrix", Args: session.NoArgs,
		Long: "List the pairs of the matrix that can be built; with --excluded also those that cannot, with the rule that says so.\n\n" +
			"COMPONENTS are the driver's programs and libraries for NVSwitch and NVLink. One with a question mark is left out of images:\n" +
			"NVIDIA has it, but no public source has its checksum.",
		Example: "  driver-build list\n  driver-build list --os debian12 --excluded\n  driver-build list --driver 535.261.03 -o json",
		RunE: func(*cobra.Command, []string) error {
			m, err := s.Load()
			if err != nil {
				return err
			}
			pairs, err := batch.Pairs(m, s.Selection)
			if err != nil {
				return err
			}
			var shown []batch.Pair
			for _, p := range pairs {
				if excluded || p.Excluded == "" {
					shown = append(shown, p)
				}
			}
			return printPairs(a, shown, format)
		},
	}
	f := cmd.Flags()
	s.AddWhole(f)
	f.StringVarP(&format, "format", "o", "table", "table, json or yaml")
	f.BoolVar(&excluded, "excluded", false, "also list pairs that cannot be built, and why")
	return cmd
}

func printPairs(a *session.App, pairs []batch.Pair, format string) error {
	switch format {
	case "json":
		return a.JSON(session.NewList(pairs))
	case "yaml":
		b, err := yaml.Marshal(session.NewList(pairs))
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(b)
		return err
	case "table":
		w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "OS\tDRIVER\tARCH\tTAG\tSOURCE\tCOMPONENTS\tNOTE")
		for _, p := range pairs {
			note := p.Excluded + strings.Join(p.Limits, "; ") // a pair has one of them
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.System, p.Driver, p.Arch, p.Tag, p.Source, componentNames(p), note)
		}
		return w.Flush()
	default:
		return session.Usagef("-o %q is not known: use table, json or yaml", format)
	}
}

// componentNames returns the names of a pair's components. One whose checksum is not known has a
// question mark.
func componentNames(p batch.Pair) string {
	var names []string
	for _, c := range p.Components {
		if c.SHA256 == "" {
			c.Name += "?"
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 && p.Excluded == "" {
		return "-"
	}
	return strings.Join(names, ",")
}
