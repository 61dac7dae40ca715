// Command compat compares the matrix's rules with the compiler: driver-build compiles every driver
// that Debian packages for the kernels of three Debian releases, in both flavours, and compat
// writes docs/compat.md: the results beside what the rules say.
//
// Everything goes through bin/driver-build, as a user would do it, one compile at a time. If Debian
// has packages of a driver for a system, their sources are compiled; otherwise the sources of a
// .run archive made from such packages (package ci/testkit/makeself). The page keeps the results: a
// run compiles what the page does not have for the newest kernels, and writes the page after each
// compile. The command loads no module: refused (page.go) lists modules that compiled and that the
// kernel refused in the lab.
//
//	go run ./ci/tables/compat [--matrix matrix.yaml] [--only WORD]
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

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/matrix"
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

// page is the file with the results.
const page = "docs/compat.md"

// errDiffers says that a line of the table needs a correction.
var errDiffers = errors.New("the matrix and the compiler differ: correct the limits in matrix.yaml")

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("compat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("matrix", "matrix.yaml", "the matrix whose rules are compared")
	only := flags.String("only", "", "compile only cells whose name has this word, such as \"535.261.03 open\"; none: write the page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := tool.CacheDir("compat", "COMPAT_CACHE")
	if err != nil {
		return err
	}
	l := &laboratory{program: "bin/driver-build", matrixFile: *file, work: work, log: stderr, bases: map[string]string{}}
	l.matrix, err = matrix.ReadFile(l.matrixFile, nil, nil)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	known, results := parse(string(text))
	kernels := map[string]kernel{}
	for _, system := range systems {
		base, _, err := command(ctx, "ci/base", system, arch)
		if err != nil {
			return fmt.Errorf("make a base of %s: %w", system, err)
		}
		l.bases[system] = lastLine(base)
		k, err := l.newest(ctx, system)
		if err != nil {
			return fmt.Errorf("list the kernels of %s: %w", system, err)
		}
		if k.Release == known[system].Release {
			k.Compiler = known[system].Compiler
		}
		kernels[system] = k
	}
	cells, err := cellsOf(l.matrix, kernels, results)
	if err != nil {
		return err
	}
	differs := false
	save := func() (err error) {
		var text string
		text, differs = render(cells)
		return write(page, text)
	}
	err = errors.Join(l.fill(ctx, cells, *only, save), save())
	if differs {
		err = errors.Join(err, errDiffers)
	}
	return err
}

// write replaces a file, and makes the folders above it.
func write(name, text string) error {
	return errors.Join(
		os.MkdirAll(filepath.Dir(name), 0o755),
		atomicwriter.WriteFile(name, []byte(text), 0o644),
	)
}
