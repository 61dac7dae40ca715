package plancmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/fleet"
)

// readNodes reads FILE or standard input, for a command.
func readNodes(ctx context.Context, a *session.App, command string, args []string) ([]fleet.Node, error) {
	if len(args) == 0 || args[0] == "-" {
		if session.IsTerminal(a.Stdin) {
			return nil, session.Usagef(
				"%[1]s reads nodes from standard input, which is a terminal: kubectl get nodes -o json | driver-build %[1]s",
				command,
			)
		}
		return fleet.ReadNodes(a.Input(ctx))
	}
	f, err := bounded.Open(args[0])
	if err != nil {
		return nil, session.Usage(fmt.Errorf("read the list of nodes: %w", err))
	}
	defer f.Close()
	all, err := fleet.ReadNodes(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return all, nil
}

// some names the first of some things and counts the others.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
