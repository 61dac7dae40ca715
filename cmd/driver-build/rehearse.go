package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rehearse"
)

const rehearseLong = `Run the life of a driver image on a real kernel before it reaches a node: in a QEMU guest whose GPU is fake, NVIDIA's real
modules load, and the image's container starts, is stopped while a program uses the driver, starts again and stops. With
--from, that image's driver is upgraded to IMAGE. Each is a row with a verdict; docs/operate.md says what is not shown.

The kernel comes from the signed repositories of the image's system. It needs qemu-system-x86_64 7.0, no root, and KVM to be
fast. The guest has no network. The image is verified first.

Exit code 5 if a row failed, 3 if it could not be rehearsed.`

// rehearseFlags are the flags of the command.
type rehearseFlags struct {
	request       rehearse.Request
	matrix        flags.Matrix
	sources       flags.Sources
	certs         []string
	values, chart string
	timeout       time.Duration
}

func newRehearseCmd(a *session.App) *cobra.Command {
	var o rehearseFlags
	q := &o.request
	cmd := &cobra.Command{
		Use: "rehearse IMAGE", Short: "Run an image's life on a real kernel, before a rollout", Args: session.ImageArgs(cobra.ExactArgs(1)),
		Long: rehearseLong + imageArgument,
		Example: "  driver-build rehearse oci:dist:580.178.04-ubuntu22.04\n" +
			"  driver-build rehearse registry.example.com/gpu/driver:580.178.04-ubuntu22.04 --from registry.example.com/gpu/driver:535.261.03-ubuntu22.04\n" +
			"  driver-build rehearse oci:dist --secure-boot --module-cert modules.pem --values values.yaml --chart deploy/chart -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Image = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	f.Var(session.String(&q.Previous, session.Image), "from", "`IMAGE` of the driver that serves before")
	f.Var(
		session.String(&q.Kernel, session.Valid(recipe.CheckRelease)),
		"kernel",
		"`RELEASE` of the kernel (default: the newest that all images have modules for, else the system's newest)",
	)
	f.StringVar(&q.System, "os", "", "`SYSTEM` of the node (default: that of IMAGE)")
	o.matrix.AddTo(f)
	o.sources.AddTo(f)
	f.StringVar(&o.values, "values", "", "`FILE` with values of the chart, rendered by helm: variables, arguments and mounts are those of the cluster")
	f.StringVar(&o.chart, "chart", "", "with --values: chart to render them with: `DIR`, FILE.tgz or oci://REGISTRY/PATH")
	f.BoolVar(&q.SecureBoot, "secure-boot", false, "start through UEFI with Secure Boot: the kernel loads signed modules only")
	f.StringArrayVar(&o.certs, "module-cert", nil, "with --secure-boot: `FILE` (PEM or DER) with a certificate that the node's firmware has (repeatable)")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "how long all of it may take")
	f.StringVar(&q.Keep, "keep", "", "write the guest's console, the kernel's log and the driver's log and status to `DIR`")
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

// check finds mistakes in the flags, and reads files.
func (o *rehearseFlags) check(a *session.App) (err error) {
	q := &o.request
	switch {
	case o.values != "" && o.chart == "":
		return session.Usagef("--values: give the chart that they are for with --chart")
	case o.chart != "" && o.values == "":
		return session.Usagef("--chart is for --values")
	case len(o.certs) > 0 && !q.SecureBoot:
		return session.Usagef("--module-cert is for --secure-boot")
	case o.timeout <= 0:
		return session.Usagef("--timeout %s: give a time such as 30m", o.timeout)
	}
	if o.values != "" {
		err = rehearse.CheckValues(o.chart, o.values)
		if err != nil {
			return session.Usage(err)
		}
	}
	q.Options.Base = o.sources.Base
	q.Options.Mirror = o.sources.Mirror
	q.Certificates, err = flags.Certificates(o.certs...)
	if err != nil {
		return err
	}
	q.Matrix, err = o.matrix.Load(a, nil)
	if err != nil {
		return err
	}
	q.Program = a.GuestProgram
	return q.Check()
}

func (o *rehearseFlags) run(ctx context.Context, a *session.App) error {
	err := o.check(a)
	if err != nil {
		return err
	}
	cause := failure.Errorf(failure.Some, "the rehearsal was not over after %s: --timeout allows more", o.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, cause)
	defer cancel()
	q := &o.request
	if o.values != "" {
		pod, err := rehearse.Render(ctx, o.chart, o.values, q.Image)
		if err != nil {
			return fmt.Errorf("--values: %w", err)
		}
		q.Pod = &pod
	}
	var report *rehearse.Report
	failed := a.Connect(ctx, q.Matrix.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) (err error) {
		report, err = q.Run(ctx, s.Builder)
		return err
	})
	if report == nil || len(report.Rows) == 0 {
		return failed
	}
	return errors.Join(failed, showReport(a, report), report.Err())
}

// showReport prints a report: the rows, and below them the lines that say why one failed.
func showReport(a *session.App, r *rehearse.Report) error {
	if a.Format == "json" {
		return a.JSON(r)
	}
	var rows [][]string
	for _, row := range r.Rows {
		verdict := strings.Replace(string(row.Verdict), string(rehearse.Failed), "FAILED", 1)
		rows = append(rows, []string{verdict, row.Name, fmt.Sprintf("%.1f s", row.Seconds), row.Message})
		for _, line := range row.Log {
			rows = append(rows, []string{" ", " ", " ", "| " + line})
		}
	}
	a.Notes(r.Notes...)
	return a.Table([]string{"RESULT", "ROW", "TIME", "FOUND"}, rows)
}
