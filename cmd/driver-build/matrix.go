package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/matrix/edit"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/releases"
)

// addDriverFlags are the flags of the command add-driver.
type addDriverFlags struct {
	version          string
	matrixFile       string
	archs, urls      []string
	index, releases  string
	redist           string
	download, dryRun bool
}

func newMatrixCmd(a *session.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "matrix", Short: "Begin or change the version matrix", Args: session.NoArgs,
		Example: initExample + "\n  driver-build matrix add-driver 580.159.04",
		Long:    "Begin a matrix.yaml of your own, or change one as a careful person would: comments, order and style stay as they are.",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMatrixInitCmd(a), newAddDriverCmd(a))
	return cmd
}

func newAddDriverCmd(a *session.App) *cobra.Command {
	var o addDriverFlags
	cmd := &cobra.Command{
		Use: "add-driver VERSION", Short: "Add a driver release to the matrix", Args: session.ExactArgs(1),
		Long: "Add a driver release to matrix.yaml, behind the nearest older one, and change nothing else.\n\n" +
			"The addresses come from --url, from --index, or from what driver-build drivers knows. A release without a .run archive gets\n" +
			"that of NVIDIA's redist folder. The sha256 comes from --index or --redist, from the table in this program, from a .sha256sum\n" +
			"file beside the archive, or, with --download, from the archive itself. A comment above the entry says which. Sources that\n" +
			"disagree are an error, and --download checks the others as well. Kernel limits are written where they are known; no limit is made up.",
		Example: "  driver-build matrix add-driver 580.159.04\n" +
			"  driver-build matrix add-driver 620.70.06 --redist redistrib_620.70.06.json --dry-run\n" +
			"  driver-build matrix add-driver 595.99.01 --url https://mirror.example.com/NVIDIA-Linux-x86_64-595.99.01.run --download",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.version = args[0]
			return o.run(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.matrixFile, "matrix", "matrix.yaml", "FILE with the version matrix to change")
	f.StringSliceVar(&o.archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default those whose address is known)")
	f.StringArrayVar(&o.urls, "url", nil, "[ARCH=]URL of the .run archive (repeatable)")
	f.StringVar(&o.index, "index", "", "FILE or URL of a list of checksums: lines as sha256sum writes them, or the columns of data/checksums.tsv")
	releasesFlag(f, &o.releases)
	f.StringVar(&o.redist, "redist", "", "FILE or URL of the driver's redistrib_VERSION.json, or none (default NVIDIA's own, if nothing else knows its archives)")
	f.BoolVar(&o.download, "download", false, "download the archives and hash them")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the change as a diff and write nothing")
	return cmd
}

// run finds out what an entry needs, edits the text and writes the file.
func (o *addDriverFlags) run(ctx context.Context, a *session.App) error {
	text, err := bounded.File(o.matrixFile, matrix.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return session.Usagef("no matrix to change: %w; give --matrix FILE", err)
	}
	if err != nil {
		return session.Usagef("--matrix: %w", err)
	}
	if !o.dryRun {
		if err := outfile.CheckEdit(o.matrixFile); err != nil {
			return session.Usagef("--matrix: %w", err)
		}
	}
	e := &releases.Entry{Version: o.version, Archs: o.archs, URLs: o.urls, IndexName: o.index}
	if err := e.Check(o.matrixFile, text); err != nil {
		return session.Usage(err)
	}
	failed := a.With(ctx, nil, nil, func(ctx context.Context, s *session.Session) error { return o.find(ctx, a, s, e) })
	a.Notes(e.Notes...)
	if failed != nil {
		return failed
	}
	change, err := edit.AddDriver(o.matrixFile, text, e.Driver, e.Comment())
	if err != nil {
		return session.Usage(err)
	}
	if o.dryRun {
		_, err := fmt.Fprint(a.Stdout, change.Diff(o.matrixFile))
		return err
	}
	if err := outfile.Edit(o.matrixFile, text, change.Text); err != nil {
		return fmt.Errorf("write %s: %w", o.matrixFile, err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s:%d: driver %s\n", o.matrixFile, change.Line, e.Driver.Version)
	return err
}

// find connects the entry with the network and fills it in.
func (o *addDriverFlags) find(ctx context.Context, a *session.App, s *session.Session, e *releases.Entry) (err error) {
	if o.index != "" {
		if e.Index, err = fetch.Address("--index", o.index); err != nil {
			return session.Usage(err)
		}
	}
	if e.Source, err = releasesSource(a, s, o.releases); err != nil {
		return err
	}
	if e.Day, err = a.Now(); err != nil {
		return err
	}
	e.NoManifest = o.redist == "none"
	if o.redist != "" && !e.NoManifest {
		e.Manifest.Name = o.redist
		if e.Manifest.Address, err = fetch.Address("--redist", o.redist); err != nil {
			return session.Usage(err)
		}
	}
	e.Read = s.Fetch.Latest
	if o.download {
		e.Download = func(ctx context.Context, address string, limit int64) (string, int64, error) {
			step := s.Step("driver "+o.version, "download "+releases.Shown(address))
			sum, size, err := s.Fetch.Import(ctx, address, limit, func(done, total int64) { step.Progress("archive", done, total) })
			return sum, size, step.End(false, err)
		}
	}
	return e.Find(ctx)
}
