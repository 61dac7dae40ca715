// Command fabricstandin is nv-fabricmanager or nvlsm in a guest, by the path that it is started by.
package main

import (
	"fmt"
	"os"

	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
)

func main() {
	code, played := fabrictest.Main(os.Args)
	if !played {
		fmt.Fprintln(os.Stderr, "not one of the stand-ins:", os.Args[0])
		code = 2
	}
	os.Exit(code)
}
