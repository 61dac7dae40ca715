package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// addDriverFlags are the flags of the command add-driver.
type addDriverFlags struct {
	matrix   flags.Matrix
	releases flags.Releases
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
	o.matrix.AddTo(f)
	o.releases.AddTo(f)
	f.Var(
		session.Slice(&o.entry.Archs, session.Valid(matrix.CheckArch)),
		"arch",
		"`ARCH`: amd64 or arm64 (repeatable; default those whose address is known)",
	)
	f.StringArrayVar(&o.entry.URLs, "url", nil, "`[ARCH=]URL` of the .run archive (repeatable)")
	session.Rare(f, func(f *pflag.FlagSet) {
		f.StringVar(
			&o.redist,
			"redist",
			"",
			"FILE or URL of the driver's redistrib_VERSION.json, or none (default NVIDIA's own, if "+
				"nothing else knows its archives)",
		)
	})
	f.BoolVar(&o.download, "download", false, "download the archives and hash them")
	return cmd
}

// run finds out what an entry needs, and prints it.
func (o *addDriverFlags) run(ctx context.Context, a *session.App) error {
	e := &o.entry
	m, err := o.matrix.Load(a, nil)
	if err != nil {
		return err
	}
	if err := e.Check(m); err != nil {
		return session.Usage(err)
	}
	e.Day, err = a.Now()
	if err != nil {
		return err
	}
	failed := a.Connect(
		ctx,
		m.Defaults.Mirrors,
		nil,
		func(ctx context.Context, s *session.Session) (err error) {
			e.Source, err = sourceOf(a, s, "--releases", o.releases.Location)
			if err != nil {
				return err
			}
			e.Manifest, err = sourceOf(a, s, "--redist", o.redist)
			if err != nil {
				return err
			}
			if o.download {
				e.Download = func(ctx context.Context, address string, limit int64) (string, int64, error) {
					step := s.Builder.Observe.Begin(
						"driver "+e.Version,
						"download "+releases.Shown(address),
					)
					sum, size, err := s.Builder.Fetch.Import(
						ctx,
						address,
						limit,
						step.File("archive"),
					)
					return sum, size, step.End(false, err)
				}
			}
			return e.Find(ctx)
		},
	)
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

const initExample = "  driver-build matrix init --os ubuntu22.04 --os ubuntu24.04 --driver 580.178.04"

func newMatrixInitCmd(a *session.App) *cobra.Command {
	var s matrix.Selection
	var source, dir string
	cmd := &cobra.Command{
		Use: "init --os SYSTEM --driver VERSION", Short: "Write a matrix of some systems and drivers, with its patches", Args: cobra.NoArgs,
		Long: "Write matrix.yaml with the rows of some systems and drivers of the matrix in this program, and beside it the patches and keys that\n" +
			"they name: what a repository with a pipeline begins with. A file that is there stays, and is an error if it has other content.",
		Example: initExample,
		RunE:    func(*cobra.Command, []string) error { return initMatrix(a, source, dir, s) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&s.Systems, "os", nil, "operating `SYSTEM`, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(
		&s.Drivers,
		"driver",
		nil,
		"driver `VERSION`, such as 580.178.04, or a branch, such as 580: its newest (repeatable)",
	)
	f.StringVar(
		&source,
		"matrix",
		"",
		"`FILE` with the matrix to take the rows from (default the one in this program)",
	)
	f.StringVar(&dir, "output", ".", "`DIR` to write to")
	return cmd
}

func initMatrix(a *session.App, source, dir string, s matrix.Selection) error {
	if len(s.Systems) == 0 || len(s.Drivers) == 0 {
		return session.Usagef("give --os and --driver: driver-build list shows what there is")
	}
	all, err := matrix.OpenFile(source, drivercontainer.Matrix, drivercontainer.Patches)
	if err != nil {
		return err
	}
	a.Notes(releases.Resolve(all.Matrix, s.Drivers)...)
	w, err := all.Trim(s)
	if err != nil {
		return err
	}
	for _, no := range w.Matrix.Impossible(matrix.Selection{}) {
		a.Notes(no.Error())
	}
	written, err := w.Write(dir)
	for _, path := range written {
		a.Result(path)
	}
	return err
}
