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
	program, err := os.Executable()
	if err != nil {
		program = "."
	}
	m := gpu.Machine{Programs: filepath.Dir(program)}
	flag.StringVar(&m.Root, "root", "/", "the machine; a stand-in in tests")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "gpu-check: takes no arguments, but got %q\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers, err := gpu.Ask(ctx, m)
	different := false
	if err == nil {
		different, err = gpu.Table(os.Stdout, answers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-check:", err)
	}
	switch {
	case errors.Is(err, gpu.ErrNoGPU):
		os.Exit(3)
	case err != nil || different:
		os.Exit(1)
	}
}
