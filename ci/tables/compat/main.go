// Command compat compares the matrix's rules with the compiler: driver-build compiles every driver that
// Debian packages for the kernels of three Debian releases, in both flavours, and compat writes a table of
// the results beside what the rules say. The companions of the matrix are compiled against each driver that
// works on the kernel.
//
// Everything goes through driver-build, as a user would do it, one compile at a time. If Debian has packages
// of a driver for a system, their sources are compiled; otherwise the sources of a .run archive made from
// such packages (package ci/testkit/makeself). Each result is kept in a folder, so that an interrupted run continues
// where it stopped. The command loads no module: known.go lists modules that compiled and that the kernel
// refused in the lab.
//
//	go run ./ci/tables/compat [--program bin/driver-build] [--matrix matrix.yaml] [--work DIR]
//		[--output docs/compat.md] [--only WORD] [--render]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/images/batch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

// errDiffers says that a line of the table needs a correction.
var errDiffers = errors.New("the matrix and the compiler differ: correct the limits in matrix.yaml")

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("compat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	l := laboratory{say: func(format string, a ...any) {
		fmt.Fprintf(stderr, time.Now().UTC().Format(time.TimeOnly)+" "+format+"\n", a...)
	}}
	flags.StringVar(&l.program, "program", "bin/driver-build", "the driver-build to use")
	flags.StringVar(&l.matrixFile, "matrix", "matrix.yaml", "the matrix whose rules are compared")
	flags.StringVar(&l.work, "work", filepath.Join(cache, "driver-build", "compat"), "folder for results and archives, kept between runs")
	flags.StringVar(&l.builder, "builder", "chroot", "what compiles, as driver-build's --builder")
	flags.StringVar(&l.only, "only", "", "compile only cells whose name has this word, such as debian12 or 535.261.03 open")
	output := flags.String("output", "docs/compat.md", "the table to write")
	renderOnly := flags.Bool("render", false, "compile nothing; write the table from the results there are")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if l.matrix, err = batch.ReadMatrix(l.matrixFile, nil, nil); err != nil {
		return err
	}
	if err := os.MkdirAll(l.work, 0o755); err != nil {
		return err
	}
	cells, err := l.cells(ctx)
	if err != nil {
		return err
	}
	failed := l.fill(ctx, cells, !*renderOnly)
	text, differs := render(cells)
	if err := write(*output, text); err != nil {
		return errors.Join(failed, err)
	}
	if differs {
		failed = errors.Join(failed, errDiffers)
	}
	return failed
}

// write replaces a file.
func write(name, text string) error {
	temporary := name + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}
