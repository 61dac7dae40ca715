package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
)

func (p *program) compileCommand() *cobra.Command {
	cfg := config.Defaults()
	var into host.ImageCompile
	var format string
	cmd := &cobra.Command{
		Use:   "compile",
		Short: "compile the modules into the cache; load nothing",
		Args:  noArgs,
		Long: `compile prints the folder of the modules. What the image or the cache has already is not compiled again.

With --into it is a part of building an image: it compiles with what this image has, whatever machine that is on, and puts the
modules below that folder instead of the cache.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, source, err := p.compile(cmd.Context(), cfg, into)
			if err != nil {
				return err
			}
			p.log().Info("modules", "source", source)
			return p.print(format, set, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, set.Dir)
				return err
			})
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().
		StringVar(&into.Release, "kernel", "", "release to compile for; default: the running kernel's")
	cmd.Flags().
		StringVar(&into.Dir, "into", "", "put the modules below this folder, and take nothing from this machine: no cache, no host, no network")
	cmd.Flags().
		StringSliceVar(&into.Modules, "modules", nil, "with --into: names of the modules to compile; default: all that the sources offer")
	moduleFlags(cmd.Flags(), &cfg)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

// compile is for this node's cache, or into a folder for an image.
func (p *program) compile(
	ctx context.Context,
	cfg config.Config,
	into host.ImageCompile,
) (*kbuild.Set, string, error) {
	if into.Dir != "" {
		complete(&cfg, p.env)
		into.Flavour = cfg.ModuleType
		into.MaxThreads = cfg.MaxThreads
		set, err := host.CompileForImage(ctx, into, p.log())
		return set, "compiled", err
	}
	if len(into.Modules) > 0 {
		return nil, "", usageError{
			errors.New("--modules is for --into: on a node all modules are compiled"),
		}
	}
	findToolkit(&cfg)
	n, err := p.node(cfg, node.Options{})
	if err != nil {
		return nil, "", err
	}
	return n.Compile(ctx, into.Release)
}

func (p *program) bakeCommand() *cobra.Command {
	cfg := config.Defaults()
	var job host.Bake
	var format string
	cmd := &cobra.Command{Use: "bake", Short: "fill the /var/lib/nvidia-driver of a machine image", Args: noArgs,
		Long: `bake makes what a start needs, on a machine without a GPU: the modules for the kernels named, and the driver root. A node whose
--state-dir is that folder, with the same driver image, neither compiles nor copies. What does not fit, the start makes itself.

Each call adds a driver to the folder, or replaces that of an earlier call with the same driver, system and architecture. baked.json lists them. A start
takes one of them if the driver of its own image does not drive the GPUs.

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
			return p.print(format, baked, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "baked driver %s for %d kernels into %s\n", baked.Driver, len(baked.Kernels), cfg.StateDir)
				return err
			})
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
