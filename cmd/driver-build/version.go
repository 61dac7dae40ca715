package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/recipe"
)

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := buildInfo()
			_, err := fmt.Fprintln(a.stdout, "driver-build", info.Version, info.Revision)
			return err
		},
	}
}

// buildInfo is what the Go tool wrote into this program.
func buildInfo() recipe.BuilderInfo {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return recipe.BuilderInfo{Version: "unknown"}
	}
	info := recipe.BuilderInfo{Version: bi.Main.Version}
	for _, s := range bi.Settings {
		if s.Key == "vcs.revision" {
			info.Revision = s.Value
		}
	}
	return info
}
