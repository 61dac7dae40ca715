// Program agent is everything that the lab runs inside a guest: /init of the initramfs, process 1, the server
// that carries out the test's requests over a virtio-serial port, and a container runtime that treats a
// privileged pod as kubelet, containerd and runc do.
//
// It is one static binary that starts itself again in its roles. It trusts the test that drives it. Run it
// only in a guest that is thrown away: anywhere else it would take over the machine.
package main

import (
	"fmt"
	"os"
)

// The roles, as the first argument. Without an argument the program is /init.
const (
	roleServe     = "serve"     // answers requests
	roleContainer = "container" // sets a container up and becomes its process
	roleEnter     = "enter"     // joins a container and becomes a process there
)

func main() {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch {
	case role == roleServe:
		err = serve()
	case role == roleContainer:
		err = containerMain()
	case role == roleEnter:
		err = enterMain()
	case os.Getpid() == 1:
		err = initMain()
	default:
		err = fmt.Errorf("this is process 1 of a test guest, and not meant to be started by hand")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab agent: %v\n", err)
		os.Exit(125)
	}
}
