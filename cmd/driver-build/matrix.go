package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/matrix"
)

func newMatrixCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "matrix", Short: "Change the version matrix", Args: noArgs,
		Long: "Change matrix.yaml as a careful person would: comments, order and style stay as they are.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAddDriverCmd(a))
	return cmd
}

func newAddDriverCmd(a *app) *cobra.Command {
	var o addDriverOptions
	cmd := &cobra.Command{
		Use: "add-driver VERSION", Short: "Add a driver release to the matrix", Args: exactArgs(1),
		Long: "Add a driver release to matrix.yaml, behind the nearest older one, and change nothing else.\n\n" +
			"The addresses come from --url, from --index, or from what driver-build drivers knows. The sha256 comes, in this order,\n" +
			"from --index, from the table in this program, from a .sha256sum file beside the archive, or, with --download, from the\n" +
			"archive itself. A comment above the entry says which. Sources that disagree are an error, and --download checks the\n" +
			"others as well. Kernel limits are written where they are known; no limit is made up.",
		Example: "  driver-build matrix add-driver 580.159.04\n" +
			"  driver-build matrix add-driver 595.91.07 --url https://mirror.example.com/NVIDIA-Linux-x86_64-595.91.07.run --download --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.version = args[0]
			return a.addDriver(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.matrixFile, "matrix", "matrix.yaml", "the version matrix to change")
	f.StringArrayVar(&o.archs, "arch", nil, "architecture: amd64 or arm64 (repeatable; default those whose address is known)")
	f.StringArrayVar(&o.urls, "url", nil, "[ARCH=]URL of the .run archive (repeatable)")
	f.StringVar(&o.index, "index", "", "FILE or URL of a list of checksums: lines as sha256sum writes them, or the columns of data/checksums.tsv")
	f.StringVar(&o.releases, "releases", "", releasesHelp)
	f.BoolVar(&o.download, "download", false, "download the archives and hash them")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the change as a diff and write nothing")
	return cmd
}

// addDriver finds out what an entry needs, edits the text and writes the file.
func (a *app) addDriver(ctx context.Context, o addDriverOptions) error {
	text, err := os.ReadFile(o.matrixFile)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError{fmt.Errorf("no matrix to change: %w; give --matrix FILE", err)}
	}
	if err != nil {
		return usageError{fmt.Errorf("--matrix: %w", err)}
	}
	n := &driverEntry{app: a, options: o}
	if err := n.check(text); err != nil {
		return usageError{err}
	}
	failed := a.with(ctx, nil, "", n.find)
	for _, note := range n.notes {
		fmt.Fprintln(a.stderr, "note: "+note)
	}
	if failed != nil {
		return failed
	}
	edit, err := matrix.AddDriver(o.matrixFile, text, n.driver, n.comment())
	if err != nil {
		return usageError{err}
	}
	if o.dryRun {
		_, err := fmt.Fprint(a.stdout, diff(o.matrixFile, edit))
		return err
	}
	if err := replaceText(o.matrixFile, text, edit.Text); err != nil {
		return fmt.Errorf("write %s: %w", o.matrixFile, err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s:%d: driver %s\n", o.matrixFile, edit.Line, n.driver.Version)
	return err
}

// diff shows an insertion as diff -u does.
func diff(file string, e *matrix.Edit) string {
	var b strings.Builder
	first := e.Line - len(e.Before)
	old := len(e.Before) + len(e.After)
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", file, file, first, old, first, old+len(e.Added))
	for _, part := range []struct {
		sign  string
		lines []string
	}{{" ", e.Before}, {"+", e.Added}, {" ", e.After}} {
		for _, line := range part.lines {
			b.WriteString(part.sign + line + "\n")
		}
	}
	return b.String()
}

// replaceText puts a new text in the place of a file. Somebody else's change of the meantime is not overwritten, and a link
// stays one.
func replaceText(file string, old, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return replaceFile(file, text, info.Mode().Perm(), func() error {
		if now, err := os.ReadFile(file); err != nil || string(now) != string(old) {
			return errors.Join(errors.New("it was changed meanwhile: try again"), err)
		}
		return nil
	})
}
