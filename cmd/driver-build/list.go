package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/status"
)

// listFlags are the flags of the command list.
type listFlags struct {
	targets  flags.Targets
	policy   flags.Policy
	cuda     flags.CUDA
	excluded bool
}

func newListCmd(a *session.App) *cobra.Command {
	var o listFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the pairs of the matrix", Args: cobra.NoArgs,
		Long: "List the pairs of the matrix that can be built; with --excluded also those that cannot, with the rule that says so.\n\n" +
			"COMPONENTS are the driver's programs and libraries for NVSwitch and NVLink. One with a question mark is left out of images:\n" +
			"NVIDIA has it, but no public source has its checksum. What is known of a driver (end of life, faults) is printed on stderr.\n\n" +
			"A driver that is recommended for a system says so: the newest one for production that NVIDIA supports, and the newest with long-term\n" +
			"support (LTS). If the fabric manager of such a driver is not known, the best one for machines with NVLink switches is marked too.\n\n" +
			"With --cuda the column CUDA says how each driver runs that release: native, minor-version (with limits) or none.",
		Example: "  driver-build list\n  driver-build list --os ubuntu22.04 --excluded\n  driver-build list --driver 580.178.04 -o json\n  driver-build list --cuda 12.8",
		RunE:    func(*cobra.Command, []string) error { return o.run(a) },
	}
	f := cmd.Flags()
	o.targets.AddTo(f)
	o.policy.AddTo(f)
	o.cuda.AddTo(f)
	session.Format(f, &a.Format, "table", "json", "yaml")
	f.BoolVar(&o.excluded, "excluded", false, "also list pairs that cannot be built, and why")
	return cmd
}

func (o *listFlags) run(a *session.App) error {
	m, err := o.targets.Load(a)
	if err != nil {
		return err
	}
	cuda, err := o.cuda.Find(a, m)
	if err != nil {
		return err
	}
	selection := o.targets.Selection
	if len(selection.Archs) == 0 {
		selection.Archs = matrix.Archs() // a list shows what there is
	}
	pairs, err := status.Pairs(m, selection)
	if err != nil {
		return err
	}
	advisor, err := o.policy.Advisor(a)
	if err != nil {
		return err
	}
	status.AddAdvisories(m, pairs, advisor, cuda)
	if !o.excluded {
		pairs = slices.DeleteFunc(pairs, func(p status.Pair) bool { return p.Excluded != "" })
	}
	err = printPairs(a, pairs, cuda != nil)
	if err != nil {
		return err
	}
	if cuda != nil {
		a.Notes(cuda.Explain())
	}
	return o.policy.Report(a, status.Targets(pairs), false)
}

func printPairs(a *session.App, pairs []status.Pair, asked bool) error {
	if a.Format == "yaml" {
		b, err := yaml.Marshal(session.NewList(pairs))
		if err != nil {
			return err
		}
		_, err = a.Stdout.Write(b)
		return err
	}
	titles := []string{"OS", "DRIVER", "ARCH", "TAG", "SOURCE", "COMPONENTS", "", "CVES", "NOTE"}
	if asked {
		titles[6] = "CUDA"
	}
	return session.ShowList(a, pairs, titles, func(p status.Pair) []string {
		runs := ""
		if p.Runs != nil {
			runs = string(p.Runs.Support)
		}
		return []string{
			p.System,
			p.Driver,
			p.Arch,
			p.Tag,
			p.Source,
			componentNames(p),
			runs,
			p.Exposure.String(),
			note(p),
		}
	})
}

// note returns what the table says of a pair in words.
func note(p status.Pair) string {
	notes := []string{
		p.Recommended, prefixed("vGPU ", p.VGPU), prefixed("companions: ", strings.Join(p.Companions, ", ")),
		prefixed("patches: ", strings.Join(p.Patches, ", ")), p.Excluded,
	}
	return sentences(append(notes, p.Limits...))
}

// prefixed is a text behind a prefix, nothing if the text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// sentences puts those that are not empty into one text.
func sentences(all []string) string {
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

// componentNames returns the names of a pair's components. One whose checksum is not known has a
// question mark.
func componentNames(p status.Pair) string {
	var names []string
	for _, c := range p.Components {
		if c.SHA256 == "" {
			c.Name += "?"
		}
		names = append(names, c.Name)
	}
	return strings.Join(names, ",")
}
