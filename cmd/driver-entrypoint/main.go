// Command driver-entrypoint is process 1 of a driver image. This version of the image carries it so that images are whole and
// can be told apart; bringing up a driver is refused with a clear message until the node side is part of it.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// Exit codes, as docs/driver-entrypoint.md lists them.
const (
	exitUsage       = 2
	exitUnsupported = 11
)

const help = `usage: nvidia-driver COMMAND

  version   print the version of this program and of the image's driver
  init      bring up the driver on this node (not part of this version: exit code 11)
  help      print this text
`

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch args[0] {
	case "version":
		fmt.Fprintf(stdout, "driver-entrypoint %s driver %s\n", version(), getenv("DRIVER_VERSION"))
		return 0
	case "help", "-h", "--help":
		fmt.Fprint(stdout, help)
		return 0
	case "init":
		fmt.Fprintf(stderr, "nvidia-driver init: driver-entrypoint %s can not bring up a driver on a node; nothing was changed. "+
			"Use this image for its contents (kernel sources, libraries), or build it with a later release.\n", version())
		return exitUnsupported
	default:
		fmt.Fprintf(stderr, "nvidia-driver: unknown command %q\n%s", args[0], help)
		return exitUsage
	}
}

func version() string {
	if bi, ok := debug.ReadBuildInfo(); ok {
		return bi.Main.Version
	}
	return "unknown"
}
