package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/images/matrix"
)

// cell is one pair of the matrix.
type cell struct {
	System   string   `json:"os" yaml:"os"`
	Driver   string   `json:"driver" yaml:"driver"`
	Branch   string   `json:"branch" yaml:"branch"`
	Arch     string   `json:"arch" yaml:"arch"`
	Tag      string   `json:"tag" yaml:"tag"`
	Flavours []string `json:"flavours,omitempty" yaml:"flavours,omitempty"`
	Source   string   `json:"source,omitempty" yaml:"source,omitempty"`
	Excluded string   `json:"excluded,omitempty" yaml:"excluded,omitempty"` // the rule that says why it cannot be built
}

func newListCmd(a *app) *cobra.Command {
	var s selection
	var format string
	var excluded bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the pairs of the matrix", Args: noArgs,
		Long: "List the pairs of the matrix that can be built; with --excluded also those that cannot, with the rule that says so.",
		RunE: func(*cobra.Command, []string) error {
			m, err := s.load()
			if err != nil {
				return err
			}
			cells, err := s.cells(m, excluded)
			if err != nil {
				return err
			}
			return a.printCells(cells, format)
		},
	}
	f := cmd.Flags()
	s.flags(f)
	f.StringVarP(&format, "format", "o", "table", "table, json or yaml")
	f.BoolVar(&excluded, "excluded", false, "also list pairs that cannot be built, and why")
	return cmd
}

// cells asks the matrix about each pair on its own, narrowed by the flags.
func (s *selection) cells(m *matrix.Matrix, excluded bool) ([]cell, error) {
	probe := matrix.Selection{Systems: s.systems, Drivers: s.drivers, Archs: s.archs, All: true, Flavours: s.flavour, AllowIncompatible: s.incompatible}
	if _, err := m.Select(probe); err != nil {
		return nil, usageError{err}
	}
	var cells []cell
	for _, sys := range m.Systems {
		for _, d := range m.Drivers {
			for _, arch := range sys.Archs {
				if !wantedIn(s.systems, sys.ID) || !wantedIn(s.drivers, d.Version) || !wantedIn(s.archs, arch) {
					continue
				}
				c, err := s.cell(m, sys, d, arch)
				if err != nil {
					return nil, err
				}
				if c.Excluded == "" || excluded {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells, nil
}

func (s *selection) cell(m *matrix.Matrix, sys matrix.System, d matrix.Driver, arch string) (cell, error) {
	c := cell{System: sys.ID, Driver: d.Version, Branch: d.Branch, Arch: arch}
	targets, err := m.Select(matrix.Selection{
		Systems: []string{sys.ID}, Drivers: []string{d.Version}, Archs: []string{arch}, Flavours: s.flavour, AllowIncompatible: s.incompatible,
	})
	var no *matrix.IncompatibleError
	switch {
	case errors.As(err, &no):
		c.Tag, c.Excluded = matrix.Target{System: sys, Driver: d}.Tag(), no.Rule+": "+no.Reason
		return c, nil
	case err != nil:
		return c, usageError{err}
	}
	t := targets[0]
	c.Tag, c.Flavours, c.Source = t.Tag(), t.Flavours, "run"
	if d.Debian != nil {
		if _, _, ok := d.Debian.Wants(sys.ID, arch); ok {
			c.Source = "deb"
		}
	}
	return c, nil
}

func wantedIn(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

func (a *app) printCells(cells []cell, format string) error {
	switch format {
	case "json":
		b, err := json.MarshalIndent(cells, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", b)
		return err
	case "yaml":
		b, err := yaml.Marshal(cells)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(b)
		return err
	case "table":
		w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "OS\tDRIVER\tARCH\tTAG\tSOURCE\tNOTE")
		for _, c := range cells {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.System, c.Driver, c.Arch, c.Tag, c.Source, c.Excluded)
		}
		return w.Flush()
	default:
		return usageError{fmt.Errorf("-o %q is not known: use table, json or yaml", format)}
	}
}
