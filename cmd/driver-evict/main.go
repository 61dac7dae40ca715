// Command driver-evict frees a node's GPUs before the driver of its pod is upgraded, and restores the node
// afterwards. It runs beside driver-entrypoint, as an init container that keeps running, if the chart's
// evictGPUPods is set.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/version"
)

// The exit codes. Their comments are the table in docs/operate.md.
const (
	// exitDone means stopped (SIGTERM, SIGINT).
	exitDone = 0
	// exitFailure means stopped with a node that could not be restored.
	exitFailure = 1
	// exitUsage means wrong flags, environment or mounts.
	exitUsage = 2
)

func main() { os.Exit(run(os.Args, os.Environ(), os.Stdout, os.Stderr)) }

// run is the whole program; it returns the exit code.
func run(argv, env []string, stdout, stderr io.Writer) int {
	// As in driver-entrypoint: the program idles for months, so the node's memory is worth more than processor
	// time.
	debug.SetGCPercent(30)
	runtime.GOMAXPROCS(min(2, runtime.GOMAXPROCS(0)))
	s, flags := newSettings()
	err := s.parse(flags, argv[1:], env)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usage(flags))
		return exitDone
	case err == nil && s.version:
		fmt.Fprintln(stdout, "driver-evict", version.Own())
		return exitDone
	case err == nil:
		err = s.serve(stderr)
	}
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "driver-evict: %v\n", err)
	if errors.Is(err, evict.ErrConfig) {
		return exitUsage
	}
	return exitFailure
}

// serve runs the agent until a signal.
func (s *settings) serve(stderr io.Writer) error {
	client, err := evict.Connect(s.server, s.account)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	return evict.New(s.cfg, client, cli.Log(stderr, s.logFormat), debug.FreeOSMemory).Run(ctx)
}
