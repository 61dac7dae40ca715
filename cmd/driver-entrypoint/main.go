// Command driver-entrypoint is process 1 of a driver image, also called nvidia-driver in it. `init`
// brings the driver up on the node, serves it and takes it down; the other verbs look, wait, or do
// one part. It is static, has no cgo, and never talks to the GPU itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/shim"
)

func main() {
	// first: a signal ends even a start that has not begun as documented
	signals := make(chan os.Signal, 128)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	worker := shim.IsWorker() // before the environment is read: it takes its marker out
	env := os.Environ()
	if worker {
		dropSecrets()
	}
	os.Exit(run(os.Args, env, worker, signals, os.Stdout, os.Stderr))
}

// run is the program without the process. The shim runs only around verbs that stay: see
// command.go.
func run(argv, env []string, worker bool, signals chan os.Signal, stdout, stderr io.Writer) int {
	if code, ok := deleteModule(argv, stderr); ok {
		return code
	}
	if filepath.Base(argv[0]) == evictLink {
		argv = slices.Insert(slices.Clone(argv), 1, "evict")
	}
	p := &program{stdout: stdout, stderr: stderr, env: env}
	ctx, stopCtx, listen := signalContexts(signals)
	cmd := p.command(stopCtx)
	if !worker && p.stays(cmd, argv[1:]) {
		return shim.Run(argv, shim.Options{Signals: signals, Log: cli.Log(stderr, "")})
	}
	// Small heaps: the worker is idle for months and computes little, so the node's memory is worth
	// more than its processor time.
	debug.SetGCPercent(40)
	runtime.GOMAXPROCS(min(4, runtime.GOMAXPROCS(0)))
	go listen()
	cmd.SetArgs(argv[1:])
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	fmt.Fprintf(stderr, "nvidia-driver: %s\n", kmsg.PrintableLines(err.Error()))
	if code == exitUsage {
		fmt.Fprintln(
			stderr,
			"Run 'nvidia-driver help' for the commands and 'nvidia-driver COMMAND --help' for their flags.",
		)
	}
	return code
}

// goIdle prepares for the long time in which an instance serves: with one processor fewer threads
// wake up, and the memory of the start goes back to the node.
func goIdle() {
	runtime.GOMAXPROCS(1)
	shim.FreeMemory()
}

// signalContexts returns two contexts. The first signal ends ctx, and the program begins to stop.
// The second signal ends stopCtx, and the stop waits for nobody any more. The contexts live as long
// as the process; listen waits for the signals.
func signalContexts(signals <-chan os.Signal) (ctx, stopCtx context.Context, listen func()) {
	stopCtx, endStop := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(stopCtx)
	return ctx, stopCtx, func() {
		<-signals
		stop()
		<-signals
		endStop()
	}
}

// deleteModule is the child that unloads a module: delete_module cannot be interrupted, and a
// kernel that hangs in it must not hang the parent. It is not a verb for people: package node/host
// is its only caller.
func deleteModule(argv []string, stderr io.Writer) (code int, ok bool) {
	if len(argv) != 3 || argv[1] != host.DeleteVerb {
		return 0, false
	}
	err := kmod.Delete(argv[2])
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, kmod.ErrInUse):
		return host.DeleteInUse, true
	case errors.Is(err, fs.ErrNotExist):
		return host.DeleteAbsent, true
	}
	fmt.Fprintln(stderr, err)
	return exitFailure, true
}
