package node

import (
	"context"
	"fmt"
	"os"

	"github.com/driver-container/driver-container/node/status"
)

// A whole life on a machine: the start in its phases, and the stop when the context ends.
func ExampleNode_Run() {
	dir, err := os.MkdirTemp("", "node-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	machine := emptyWorld(dir) // in place of the package node/host
	_, n := machine.begin(life{version: v535, source: status.FromImage})
	ctx, stop := context.WithCancel(context.Background())
	n.Served = func() {
		for _, p := range n.Status.Get().Phases {
			fmt.Print(p.Phase, " ")
		}
		fmt.Println("->", n.Status.Get().State)
		stop()
	}
	err = n.Run(ctx, context.Background())
	fmt.Println(n.Status.Get().State, err)
	// Output:
	// lock recover survey preflight modules stage replace root load companions nodes daemons verify -> serving
	// absent <nil>
}
