// Program driver-guest runs in the guests of `driver-build rehearse`. As process 1 it makes a host
// out of an initramfs, as an initrd and systemd do. Otherwise it is the agent: it starts the
// processes that the other machine asks for, and reports their output and their ends. It trusts
// that machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	if os.Getpid() == 1 {
		// If it comes back, the guest is of no use any more, and the console says why.
		fmt.Fprintf(os.Stderr, "driver-guest: %v\n", boot())
		powerOff()
	}
	fmt.Fprintf(os.Stderr, "driver-guest: %v\n", serveStdin())
	os.Exit(1)
}
