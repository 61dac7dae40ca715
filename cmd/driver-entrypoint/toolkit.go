package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/drivertoolkit"
	"github.com/driver-container/driver-container/node/status"
)

// The variables by which the GPU Operator says that the cluster has no toolkit of the node's
// version.
const (
	toolkitMissingEnv = "RHCOS_IMAGE_MISSING"
	toolkitVersionEnv = "RHCOS_VERSION"
)

// missingToolkit returns the image stream tag that the cluster lacks; "" if it has it.
func missingToolkit(env []string) string {
	if cli.Lookup(env, toolkitMissingEnv) != "true" {
		return ""
	}
	if version := cli.Lookup(env, toolkitVersionEnv); version != "" {
		return "driver-toolkit:" + version
	}
	return "driver-toolkit of this node's version"
}

func toolkitDirFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(
		dir,
		"toolkit-dir",
		drivertoolkit.DefaultDir,
		"folder that is shared with the Driver Toolkit container",
	)
}

// withToolkitCommand is init in a pod that has a Driver Toolkit container.
func (p *program) withToolkitCommand(stopCtx context.Context) *cobra.Command {
	cfg := config.Defaults()
	cmd := p.startCommand(stopCtx, &cfg, func() {
		if missing := missingToolkit(p.env); missing != "" {
			p.log().
				Warn("no Driver Toolkit for this node: the cluster lacks its image stream tag; missing modules are compiled here, with headers of the package repositories", "tag", missing, "namespace", "openshift")
		}
		if err := drivertoolkit.Invite(cfg.Toolkit); err != nil {
			p.log().Warn("the Driver Toolkit container cannot be told anything", "error", err)
		}
	})
	cmd.Use = drivertoolkit.DriverVerb
	cmd.Short = "init beside a Driver Toolkit container of OpenShift"
	cmd.Long = "The Driver Toolkit container compiles what image and cache do not have."
	toolkitDirFlag(cmd.Flags(), &cfg.Toolkit)
	cmd.Flags().
		DurationVar(&cfg.ToolkitTimeout, "toolkit-timeout", cfg.ToolkitTimeout, "compile in this container when the Driver Toolkit container has not begun for so long")
	return cmd
}

// builderCommand runs in the Driver Toolkit container, from the shared folder.
func (p *program) builderCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   drivertoolkit.BuilderVerb,
		Short: "in a Driver Toolkit container: compile, then stay",
		Args:  noArgs,
		Long: `dtk-build-driver compiles what the driver container asks for. It is started from the shared folder, in an
image that has the headers and the compiler of the node's kernel and
nothing of the driver. It stays until it gets a signal.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			goIdle()
			return drivertoolkit.Builder{
				Dir:     dir,
				Log:     p.log(),
				Root:    "/",
				Scratch: "/var/tmp/nvidia-driver",
			}.Run(cmd.Context())
		},
	}
	toolkitDirFlag(cmd.Flags(), &dir)
	return cmd
}

// sidecarCommand stands in for a sidecar of NVIDIA that loads a module. The driver container loads
// it here.
func (p *program) sidecarCommand(verb, module, variable string) *cobra.Command {
	timeout := 20 * time.Minute
	cmd := &cobra.Command{
		Use:   verb,
		Short: "wait until " + module + " is loaded, then stay",
		Args:  noArgs,
		Long:  "The driver container itself compiles and loads " + module + " if its image has it and " + variable + " is true: no sidecar is needed.\nThis verb is for a DaemonSet that has one.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			p.log().Info("waiting for the driver container to load the module", "module", module)
			err := daemons.Until(ctx, 2*time.Second, func() error {
				_, err := kmod.System{}.Module(module)
				return err
			})
			if cmd.Context().Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf(
					"%w: %s was not loaded within %s: %w; the driver container loads it if its image has it and %s=true is set for nvidia-driver-ctr",
					status.ErrNotReady,
					module,
					timeout,
					err,
					variable,
				)
			}
			p.log().Info("the module is loaded", "module", module)
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up after so long")
	return cmd
}

// findToolkit sets the shared folder of a pod that has one, for verbs that do not start the driver.
func findToolkit(cfg *config.Config) {
	if info, err := os.Stat(drivertoolkit.DefaultDir); err == nil && info.IsDir() {
		cfg.Toolkit = drivertoolkit.DefaultDir
	}
}
