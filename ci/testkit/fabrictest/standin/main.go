// Program standin is the stand-in for a program of NVLink switches; its own path says for which.
package main

import (
	"fmt"
	"os"

	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
)

func main() {
	code, played := fabrictest.Main(os.Args)
	if !played {
		fmt.Fprintf(os.Stderr, "%s is no program of NVLink switches\n", os.Args[0])
		code = 2
	}
	os.Exit(code)
}
