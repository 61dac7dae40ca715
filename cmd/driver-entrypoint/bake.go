package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
)

func (p *program) bakeCommand() *cobra.Command {
	cfg := config.Defaults()
	var job host.Bake
	var format string
	cmd := &cobra.Command{Use: "bake", Short: "fill the folder for a node's /var/lib/nvidia-driver, in a machine image: modules and driver root", Args: noArgs,
		Long: `bake makes what a start needs, on a machine without a GPU: the modules for the kernels named, and the driver root. A node whose
--state-dir is that folder, with the same driver image, neither compiles nor copies. What does not fit, the start makes itself.

The headers of the kernels are in the image, on this machine (--pid=host, or its /usr at /host/usr), or fetched.
Without --privileged, folders of the image that a volume covers are empty in the driver root.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !filepath.IsAbs(cfg.StateDir) {
				return usageError{fmt.Errorf("--into is %q; bake needs the absolute path of the folder to fill", cfg.StateDir)}
			}
			complete(&cfg, p.env)
			if err := cfg.Check(); err != nil {
				return err
			}
			if cfg.NoCompile {
				return usageError{errors.New("--no-compile makes no sense for bake: an image with modules compiles nothing anyway")}
			}
			job.Config = cfg
			baked, err := job.Run(cmd.Context(), p.log())
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(p.stdout, baked)
			}
			_, err = fmt.Fprintf(p.stdout, "baked driver %s for %d kernels into %s\n", baked.Driver, len(baked.Kernels), cfg.StateDir)
			return err
		}}
	f := cmd.Flags()
	formatFlag(cmd, &format)
	cfg.StateDir = ""
	f.StringVar(&cfg.StateDir, "into", "", "folder to fill")
	f.StringSliceVar(&job.Kernels, "kernel", nil, "release of a kernel that the machines may boot, as uname -r prints it; several times")
	f.StringVar(&cfg.Run, "run-dir", cfg.Run, "folder in which a driver on this machine would have its lock")
	moduleFlags(f, &cfg)
	return cmd
}
