package plancmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/fleet"
)

const auditLong = `Read the nodes of a cluster, as kubectl get nodes -o json prints them, and say which driver each of them runs. A row has its known
CVEs, how long NVIDIA supports it, the driver that is recommended, and the command that makes the image of that one. Drivers that
others have installed count too. FILE is - or missing for standard input. It may also hold the answers of hosts without a cluster;
docs/fleet.md has their format.

Nodes that run the same driver, and for which the same is to be done, share a row. The driver is known from labels of the driver or
of GPU feature discovery, the node condition of driver-entrypoint, or labels for the modules of the node's system.`

// auditFlags are the flags of the command audit.
type auditFlags struct {
	request    flags.Request
	advisories flags.Advisories
	failOn     []string
}

// NewAudit returns the command audit.
func NewAudit(a *session.App) *cobra.Command {
	var o auditFlags
	cmd := &cobra.Command{
		Use: "audit [FILE]", Short: "Say which nodes run a driver with known CVEs or without support", Long: auditLong, Args: cobra.MaximumNArgs(1),
		Example: "  kubectl get nodes -o json | driver-build audit\n  driver-build audit nodes.json --fail-on vulnerable=7.0,end-of-life -o json",
	}
	f := cmd.Flags()
	o.request.Targets.Matrix.AddTo(f)
	o.advisories.AddTo(f)
	o.request.Repository.AddTo(f, "that commands push to:")
	f.Var(
		session.Slice(&o.failOn, session.Valid(fleet.CheckFinding)),
		"fail-on",
		"`KIND` of finding that makes the command fail with exit code 8: vulnerable, vulnerable=SCORE "+
			"(a CVE of this CVSS score or a higher one), end-of-life, known-bad, unknown (repeatable; "+
			"default all of them)",
	)
	session.Format(f, &a.Format, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		arguments := flags.Arguments(f, "matrix", "repository")
		if f.Changed("repository") {
			arguments = append(arguments, "--push")
		}
		return o.run(cmd.Context(), a, args, arguments)
	}
	return cmd
}

func (o *auditFlags) run(ctx context.Context, a *session.App, args, arguments []string) error {
	m, err := o.request.Targets.Load(a)
	if err != nil {
		return err
	}
	_, err = o.request.Repository.Find(a, m.Defaults)
	if err != nil {
		return err
	}
	advisor, err := o.advisories.Advisor(a)
	if err != nil {
		return err
	}
	nodes, err := readNodes(ctx, a, "audit", args)
	if err != nil {
		return err
	}
	audit := fleet.NewAudit(m, nodes, fleet.Options{Advisor: advisor}, arguments)
	if a.Format == "json" {
		err = a.JSON(audit)
	} else {
		err = printAudit(a, audit)
	}
	if err != nil {
		return err
	}
	return audit.Fail(o.failOn)
}

// printAudit prints the rows, the worst CVEs of each driver, and the commands.
func printAudit(a *session.App, audit *fleet.Audit) error {
	titles := []string{"NODES", "DRIVER", "KERNEL", "CVES", "SUPPORT", "RECOMMENDED", "ADVICE"}
	var rows [][]string
	for _, r := range audit.Groups {
		advice := append([]string{r.Advice}, r.KnownBad...)
		rows = append(rows, []string{
			some(r.Nodes, 3),
			cmp.Or(r.Driver, "unknown"),
			some(r.Kernels, 1),
			r.Exposure.String(),
			r.Support,
			r.Recommend,
			strings.Join(advice, "; "),
		})
	}
	err := a.Table(titles, rows)
	if err != nil {
		return err
	}
	printed := map[string]bool{"": true}
	for _, r := range audit.Groups {
		known := audit.Vulnerabilities[r.Driver]
		if printed[r.Driver] || len(known) == 0 {
			continue
		}
		printed[r.Driver] = true
		var names []string
		for _, v := range known {
			names = append(names, fmt.Sprintf("%s %.1f", v.CVE, v.Score))
		}
		fmt.Fprintf(a.Stdout, "%s: %s: %s\n", r.Driver, r.Exposure.Explain(), some(names, 3))
	}
	for _, r := range audit.Groups {
		if !printed[r.Command] {
			printed[r.Command] = true
			fmt.Fprintf(a.Stdout, "to mend %s: %s\n", some(r.Nodes, 3), r.Command)
		}
	}
	return nil
}
