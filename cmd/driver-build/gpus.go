package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func newGPUsCmd(a *session.App) *cobra.Command {
	var file flags.Matrix
	var advisories flags.Advisories
	var rule bool
	cmd := &cobra.Command{
		Use: "gpus [ID|NAME...]", Short: "Say which driver is for which GPU",
		Long: "Say which driver of the matrix is recommended for a GPU, how long NVIDIA supports it, which one has long-term support (LTS),\n" +
			"which branch is its last one, and which kernel modules it takes. A GPU is named by its PCI number (10de:1eb8, 1eb8), its name\n" +
			"or words of it, its chip (TU104) or its generation (Turing). Without arguments, a summary by generation. A number that is not\n" +
			"in the list is taken for a new GPU, which gets the newest driver, with a warning.\n\n" +
			"--node-feature-rules prints a NodeFeatureRule, with which Node Feature Discovery labels nodes before they have a driver.",
		Example: "  driver-build gpus\n  driver-build gpus 10de:1eb8 \"Tesla K80\" -o json\n" +
			"  driver-build gpus --node-feature-rules | kubectl apply -f -",
		RunE: func(_ *cobra.Command, args []string) error {
			if rule && len(args) > 0 {
				return session.Usagef(
					"--node-feature-rules is about all GPUs: leave out %s",
					strings.Join(args, " "),
				)
			}
			if rule && a.Format == "json" {
				return session.Usagef("--node-feature-rules prints YAML: leave out -o json")
			}
			if rule {
				return gpus.Write(a.Stdout)
			}
			m, err := file.Load(a, nil)
			if err != nil {
				return err
			}
			advisor, err := advisories.AdvisorNow(a)
			if err != nil {
				return err
			}
			return printGPUs(a, m, args, advisor)
		},
	}
	f := cmd.Flags()
	file.AddTo(f)
	advisories.AddTo(f)
	session.Format(f, &a.Format, "table", "json")
	f.BoolVar(
		&rule,
		"node-feature-rules",
		false,
		"print a NodeFeatureRule that labels nodes by their GPUs",
	)
	return cmd
}

func printGPUs(a *session.App, m *matrix.Matrix, texts []string, advisor releases.Advisor) error {
	all := gpus.All()
	if len(texts) > 0 {
		var err error
		all, err = findGPUs(texts)
		if err != nil {
			return err
		}
	}
	// a line for each generation, newest first, and one for its exceptions
	if a.Format == "table" && len(texts) == 0 {
		titles := []string{"GENERATION", "GPUS", "DRIVER", "SUPPORT", "LTS", "CVES", "MODULES", "LAST BRANCH", "SUCH AS"}
		return session.ShowList(a, gpus.Summary(m, advisor), titles, func(s gpus.Summed) []string {
			return slices.Concat(
				[]string{s.Generation, strconv.Itoa(s.Count)},
				driverColumns(s.Answer),
				[]string{s.Name},
			)
		})
	}
	answers := make([]gpus.Answer, len(all))
	for i, g := range all {
		answers[i] = gpus.For(m, g, advisor)
		if !answers[i].Known {
			a.Warnings(answers[i].ID + " is " + gpus.TakenForNew)
		}
	}
	titles := []string{"ID", "GPU", "GENERATION", "DRIVER", "SUPPORT", "LTS", "CVES", "MODULES", "LAST BRANCH", "WHY"}
	return session.ShowList(a, answers, titles, func(g gpus.Answer) []string {
		return slices.Concat(
			[]string{g.ID, g.Name, g.Generation},
			driverColumns(g),
			[]string{g.Why},
		)
	})
}

// findGPUs returns the GPUs that texts name, each once.
func findGPUs(texts []string) (all []gpus.GPU, err error) {
	for _, text := range texts {
		found, wrong := gpus.Find(text)
		err = errors.Join(err, wrong)
		for _, g := range found {
			if !slices.ContainsFunc(
				all,
				func(other gpus.GPU) bool { return other.Device == g.Device },
			) {
				all = append(all, g)
			}
		}
	}
	if err != nil {
		return nil, session.Usage(err)
	}
	return all, nil
}

// driverColumns are those about the driver, which both tables have.
func driverColumns(g gpus.Answer) []string {
	return []string{g.Driver, g.Support, g.LongTerm, g.Exposure.String(), g.Modules, g.LastBranch}
}
