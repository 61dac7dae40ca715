package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/outfile"
)

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
	f.StringSliceVar(&s.Systems, "os", nil, "operating system, such as ubuntu22.04 (repeatable)")
	f.StringSliceVar(&s.Drivers, "driver", nil, "driver version, such as 580.178.04, or a branch, such as 580: its newest (repeatable)")
	f.StringVar(&source, "matrix", "", "FILE with the matrix to take the rows from (default the one in this program)")
	f.StringVar(&dir, "output", ".", "DIR to write to")
	return cmd
}

func initMatrix(a *session.App, source, dir string, s matrix.Selection) error {
	if len(s.Systems) == 0 || len(s.Drivers) == 0 {
		return session.Usagef("give --os and --driver: driver-build list shows what there is")
	}
	w, err := batch.Trim(source, drivercontainer.Matrix, drivercontainer.Patches, s, a.Notes)
	if err != nil {
		return err
	}
	for _, no := range w.Impossible(matrix.Selection{}) {
		a.Notes(no.Error())
	}
	files := w.Files
	files["matrix.yaml"] = string(w.Text)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		there, err := bounded.File(filepath.Join(dir, name), matrix.MaxSize)
		switch {
		case !filepath.IsLocal(name):
			return session.Usagef("%s names %s, which is not below its folder: give a matrix with its files beside it", source, name)
		case err == nil && string(there) != files[name]:
			return session.Usagef("%s is there already, with other content: remove it, or give --output DIR", filepath.Join(dir, name))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return session.Usagef("--output: %w", err)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return session.Usagef("--output: %w", err)
		}
		err := outfile.Replace(path, func(w io.Writer) error {
			_, err := io.WriteString(w, files[name])
			return err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		a.Result(path)
	}
	return nil
}
