package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// addDriverFlags are the flags of the command add-driver.
type addDriverFlags struct {
	flags.Common
	entry    releases.Entry
	redist   string
	download bool
}

func newMatrixCmd(a *session.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "matrix", Short: "Begin or extend the version matrix", Args: cobra.NoArgs,
		Example: initExample + "\n  driver-build matrix add-driver 580.159.04",
		Long:    "Begin a matrix.yaml of your own, or make the entry of a driver for one.",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMatrixInitCmd(a), newAddDriverCmd(a))
	return cmd
}

func newAddDriverCmd(a *session.App) *cobra.Command {
	var o addDriverFlags
	cmd := &cobra.Command{
		Use: "add-driver VERSION", Short: "Print the entry of a driver release for the matrix", Args: cobra.ExactArgs(1),
		Long: "Print the entry of a driver release, to be put below drivers in matrix.yaml.\n\n" +
			"The addresses come from --url, or from what driver-build drivers knows. A release without a .run archive gets that of NVIDIA's\n" +
			"redist folder. The sha256 comes from --redist, from the table in this program, from a .sha256sum file beside the archive,\n" +
			"or, with --download, from the archive itself. A comment above the entry says which. Sources that disagree are an error, and\n" +
			"--download checks the others as well. Kernel limits are written where they are known; no limit is made up.",
		Example: "  driver-build matrix add-driver 580.159.04\n" +
			"  driver-build matrix add-driver 620.70.06 --redist redistrib_620.70.06.json\n" +
			"  driver-build matrix add-driver 595.99.01 --url https://mirror.example.com/NVIDIA-Linux-x86_64-595.99.01.run --download",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.entry.Version = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	o.AddTo(f, "matrix releases")
	f.StringSliceVar(&o.entry.Archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default those whose address is known)")
	f.StringArrayVar(&o.entry.URLs, "url", nil, "[ARCH=]URL of the .run archive (repeatable)")
	f.StringVar(&o.redist, "redist", "", "FILE or URL of the driver's redistrib_VERSION.json, or none (default NVIDIA's own, if nothing else knows its archives)")
	f.BoolVar(&o.download, "download", false, "download the archives and hash them")
	return cmd
}

// run finds out what an entry needs, and prints it.
func (o *addDriverFlags) run(ctx context.Context, a *session.App) error {
	e := &o.entry
	m, err := o.Load(a)
	if err != nil {
		return err
	}
	if err := e.Check(m); err != nil {
		return session.Usage(err)
	}
	if e.Day, err = a.Now(); err != nil {
		return err
	}
	failed := a.With(ctx, m.Defaults.Mirrors, nil, func(ctx context.Context, s *session.Session) (err error) {
		if e.Source, err = sourceOf(a, s, "--releases", o.Releases); err != nil {
			return err
		}
		if e.Manifest, err = sourceOf(a, s, "--redist", o.redist); err != nil {
			return err
		}
		if o.download {
			e.Download = func(ctx context.Context, address string, limit int64) (string, int64, error) {
				step := s.Step("driver "+e.Version, "download "+releases.Shown(address))
				sum, size, err := s.Fetch.Import(ctx, address, limit, func(done, total int64) { step.Progress("archive", done, total) })
				return sum, size, step.End(false, err)
			}
		}
		return e.Find(ctx)
	})
	a.Notes(e.Notes...)
	if failed != nil {
		return failed
	}
	text, err := matrix.Stanza(e.Driver, e.Sources)
	if err != nil {
		return session.Usage(err)
	}
	_, err = fmt.Fprint(a.Stdout, text)
	return err
}
