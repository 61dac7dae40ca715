// Command mkrun writes a .run archive for tests from a directory with an installed driver.
//
//	go run ./ci/testkit/makeself/mkrun --tree DIR --version 535.261.03 [--arch x86_64]
//		[--compression xz|gzip|zstd] [--output FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mkrun:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("mkrun", flag.ContinueOnError)
	flags.SetOutput(stderr)
	tree := flags.String("tree", "", "directory with the driver")
	version := flags.String("version", "", "version of the driver")
	arch := flags.String("arch", "x86_64", "x86_64 or aarch64")
	compression := flags.String("compression", "xz", "xz, gzip or zstd")
	output := flags.String("output", "", "file to write (default: NVIDIA's name for it, in the working directory)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tree == "" || *version == "" || flags.NArg() > 0 {
		return fmt.Errorf("--tree and --version are needed, and nothing else; see --help")
	}
	a, skipped, err := makeself.FromTree(os.DirFS(*tree), *version, *arch)
	if err != nil {
		return err
	}
	for _, name := range skipped {
		fmt.Fprintln(stderr, "left out:", name)
	}
	a.Compression = *compression
	if *output == "" {
		*output = a.Name()
	}
	if err := a.WriteFile(ctx, *output); err != nil {
		return err
	}
	fmt.Fprintln(stdout, *output)
	return nil
}
