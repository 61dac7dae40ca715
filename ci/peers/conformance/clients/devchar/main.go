// Command devchar does the validator's last step for a driver container, as nvidia-validator of the GPU
// Operator 26.7 does it with NVIDIA's container toolkit: it makes the control device nodes that are missing
// below the dev root, and links from MAJOR:MINOR to every possible device node. nvidia-ctk has the same
// command, but without the dev root.
//
// It prints the toolkit's log on stderr.
package main

import (
	"flag"
	"fmt"
	"os"

	devchar "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk/system/create-dev-char-symlinks"
)

func main() {
	root := flag.String("driver-root", "/run/nvidia/driver", "the driver root; modprobe would run in it")
	dev := flag.String("dev-root", "/", "the folder whose dev holds the device nodes, and whose sys the PCI devices")
	links := flag.String("dev-char-path", "/dev/char", "the folder for the links")
	load := flag.Bool("load-kernel-modules", false, "load the modules, which the validator does when none is loaded and the root has dev")
	flag.Parse()
	if err := link(*root, *dev, *links, *load); err != nil {
		fmt.Fprintf(os.Stderr, "devchar: link the device nodes of %s in %s: %v\n", *dev, *links, err)
		os.Exit(1)
	}
}

func link(root, dev, links string, load bool) error {
	creator, err := devchar.NewSymlinkCreator(
		devchar.WithDriverRoot(root),
		devchar.WithDevRoot(dev),
		devchar.WithDevCharPath(links),
		devchar.WithCreateAll(true),
		devchar.WithCreateDeviceNodes(true),
		devchar.WithLoadKernelModules(load),
	)
	if err != nil {
		return err
	}
	return creator.CreateLinks()
}
