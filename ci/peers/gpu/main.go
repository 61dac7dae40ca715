// Command gpu-check asks a machine with NVIDIA GPUs whose driver is loaded whether the project's
// programs see what NVIDIA's nvidia-smi sees: driver-probe, the PCI bus, device files and
// preflight. It prints a table in Markdown. It is static; its folder also has driver-probe, and can
// be carried to a machine without Go and network.
//
// It changes nothing on the machine: it loads and unloads no module, resets no GPU, switches no MIG
// mode, and writes no file. Such machines are often containers, so that it needs no writable /sys,
// and finds the driver's libraries also in /usr/local/nvidia. A question that cannot be asked on a
// machine is an answer of its own, with the reason.
//
// Exit codes: 0 all answers are the same, 1 one differs or the machine could not be asked, 2 wrong
// arguments, 3 the machine has no GPU with a loaded driver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	program, _ := os.Executable() //nolint:errcheck // then driver-probe is looked for in the current folder
	m := machine{programs: filepath.Dir(program), timeout: time.Minute}
	flag.StringVar(&m.root, "root", "/", "the machine; a stand-in in tests")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "gpu-check: takes no arguments, but got %q\n", flag.Args())
		os.Exit(2)
	}
	answers, err := ask(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-check:", err)
	}
	switch {
	case errors.Is(err, errNoGPU):
		os.Exit(3)
	case err != nil:
		os.Exit(1)
	}
	text, different := table(answers)
	fmt.Print(text)
	if different {
		os.Exit(1)
	}
}
