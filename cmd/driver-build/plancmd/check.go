package plancmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/status"
)

const checkLong = `Ask, for each pair of the matrix, whether it could be built now: whether the base is to be had, the driver's archive is there
with the size that the matrix has, and so are those of its components, the package repositories have compiler and headers for the current kernel, and what was locked is
still there; and whether the registry has the image. With --kernel-from, headers and compiler are those of images, and the image is the one with
modules for their newest kernel. Nothing is downloaded but bases and indexes. Exit code 3 when a pair is broken;
an image that is missing or out of date breaks nothing. Without --os and --driver the whole matrix is meant.`

// NewCheck returns the command check.
func NewCheck(a *session.App) *cobra.Command {
	var o flags.Survey
	cmd := &cobra.Command{
		Use: "check", Short: "Say which images could be built now, and what is in the way", Long: checkLong, Args: cobra.NoArgs,
		Example: "  driver-build check --repository registry.example.com/gpu/driver\n  driver-build check --os ubuntu22.04 -o json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return check(cmd.Context(), a, &o) },
	}
	f := cmd.Flags()
	o.AddTo(f)
	o.Request.Kernels.AddFromTo(f)
	session.Format(f, &a.Format, "table", "json")
	return cmd
}

func check(ctx context.Context, a *session.App, o *flags.Survey) error {
	m, q, err := o.Load(a)
	if err != nil {
		return err
	}
	q.Request, err = o.Request.WithoutTargets(a, m.Defaults)
	if err != nil {
		return err
	}
	pairs, err := status.Pairs(m, o.Request.Targets.Selection)
	if err != nil {
		return err
	}
	advisor, err := o.Policy.Advisor(a)
	if err != nil {
		return err
	}
	status.AddAdvisories(m, pairs, advisor, nil)
	q.Request.Targets = status.Targets(pairs)
	var rows []status.Checked
	ask := func(ctx context.Context, s *session.Session) (err error) {
		rows, err = status.Check(ctx, s.Builder, q, pairs)
		return err
	}
	err = o.Connect(ctx, a, m, &q, ask)
	if err != nil {
		return err
	}
	err = printChecked(a, rows)
	if err != nil {
		return err
	}
	return errors.Join(status.BrokenError(rows), o.Policy.Report(a, q.Request.Targets, true))
}

func printChecked(a *session.App, rows []status.Checked) error {
	shared := status.SharedCauses(rows)
	titles := []string{
		"OS",
		"DRIVER",
		"ARCH",
		"BASE",
		"ARCHIVE",
		"COMPONENTS",
		"HEADERS",
		"LOCK",
		"IMAGE",
		"CVES",
		"NOTE",
	}
	err := session.ShowList(a, rows, titles, func(r status.Checked) []string {
		image := ""
		if r.Image != nil {
			image = string(r.Image.State)
		}
		return []string{
			r.System,
			r.Driver,
			r.Arch,
			r.Base.String(),
			r.Archive.String(),
			r.Components.String(),
			r.Headers.String(),
			r.Lock.String(),
			image,
			r.Exposure.String(),
			r.Note(shared),
		}
	})
	if err != nil || a.Format == "json" {
		return err
	}
	for n, cause := range shared {
		fmt.Fprintf(a.Stdout, "cause %d: %s\n", n+1, cause)
	}
	return nil
}
