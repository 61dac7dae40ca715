// Command driver-conformance lets NVIDIA's own programs examine a driver root and prints their findings as
// JSON (package inside). It exits 0 when none of them reports a problem, 1 when one does, 2 when they could
// not be run.
//
//	driver-conformance --consumer DIR --driver-root DIR --driver-version VERSION [--dev DIR]
//
// It starts itself again in a mount and pid namespace of its own, so that the rest of the machine does not
// see what it and the programs do to /dev, /run or any mount. It needs root. It is static and runs anywhere,
// also in a guest without a system.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/ci/peers/conformance/inside"
)

// limit bounds a whole run; without emulation a run takes two seconds.
const limit = 5 * time.Minute

func main() {
	runtime.LockOSThread() // see the function again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver-conformance:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (int, error) {
	var o inside.Options
	flags := flag.NewFlagSet("driver-conformance", flag.ContinueOnError)
	flags.StringVar(&o.Consumer, "consumer", "", "the small system with the programs (required)")
	flags.StringVar(&o.Root, "driver-root", "/run/nvidia/driver", "the driver root to look at")
	flags.StringVar(&o.Version, "driver-version", "", "the driver version that it should have (required)")
	flags.StringVar(&o.Dev, "dev", "/dev", "folder with the driver's device nodes; they are copied")
	entered := flags.Bool("inside", false, "used by the program itself")
	if err := flags.Parse(args); err != nil {
		return 2, nil //nolint:nilerr // flag has printed what is wrong
	}
	if o.Consumer == "" || o.Version == "" || flags.NArg() > 0 {
		return 2, errors.New("--consumer and --driver-version are required, and there are no arguments")
	}
	if !*entered {
		return again(ctx, args)
	}
	report, err := inside.Run(ctx, o)
	if err != nil {
		return 2, err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(report); err != nil {
		return 2, fmt.Errorf("print the report: %w", err)
	}
	if len(report.Problems()) > 0 {
		return 1, nil
	}
	return 0, nil
}

// again runs this program in namespaces of its own. Processes that it leaves behind end with the pid
// namespace.
func again(ctx context.Context, args []string) (int, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"--inside"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// The kernel sends the signal when the thread ends that started the child. main locked its thread, so that
	// is when this process ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 2, fmt.Errorf("start again in namespaces of its own (it needs root): %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}
