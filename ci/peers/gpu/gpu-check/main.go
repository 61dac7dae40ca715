// Command gpu-check asks a machine with NVIDIA GPUs whose driver is loaded whether the project's programs see
// what nvidia-smi sees, and prints a table in Markdown. It changes nothing on the machine. It is static; its
// folder also has driver-probe, and can be carried to a machine without Go and network.
//
// Exit codes: 0 all answers are the same, 1 one differs or the machine could not be asked, 2 wrong arguments,
// 3 the machine has no GPU with a loaded driver.
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

	"github.com/driver-container/driver-container/ci/peers/gpu"
)

// limit is the time for all questions together.
const limit = 9 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var m gpu.Machine
	flags := flag.NewFlagSet("gpu-check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&m.Root, "root", "/", "the machine; a stand-in in tests")
	flags.StringVar(&m.Programs, "programs", beside(), "folder with driver-probe")
	flags.DurationVar(&m.Timeout, "timeout", time.Minute, "time for one program")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		if err == nil {
			fmt.Fprintf(stderr, "gpu-check: takes no arguments, but got %q\n", flags.Args())
		}
		return 2
	}
	answers, err := gpu.Ask(ctx, m)
	if err != nil {
		fmt.Fprintln(stderr, "gpu-check:", err)
		if errors.Is(err, gpu.ErrNoGPU) {
			return 3
		}
		return 1
	}
	different, err := gpu.Table(stdout, answers)
	if err != nil {
		fmt.Fprintln(stderr, "gpu-check: write the table:", err)
	}
	if different || err != nil {
		return 1
	}
	return 0
}

// beside is the folder of this program.
func beside() string {
	path, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(path)
}
