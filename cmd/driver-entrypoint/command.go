package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/drivertoolkit"
	"github.com/driver-container/driver-container/version"
)

// program is what the verbs share.
type program struct {
	stdout, stderr io.Writer
	env            []string
	names          cli.Names // environment variables of flags
	logFormat      string
}

// getenv returns the value of an environment variable, "" if it is not set.
func (p *program) getenv(name string) string { return cli.Lookup(p.env, name) }

// log returns the logger of the verbs, which writes to stderr.
func (p *program) log() *slog.Logger { return cli.Log(p.stderr, p.logFormat) }

// longVerbs run for long and have children.
var longVerbs = []string{
	"init",
	"compile",
	"bake",
	"reload_nvidia_peermem",
	drivertoolkit.DriverVerb,
	drivertoolkit.BuilderVerb,
}

// stays says whether a command line is one that runs for long and has children: only those get the shim. A command line that is wrong
// ends at once.
func (p *program) stays(root *cobra.Command, args []string) bool {
	cmd, rest, err := root.Find(args)
	long := cmd == root || slices.Contains(longVerbs, cmd.Name())
	if err != nil || !long || cmd.ParseFlags(rest) != nil {
		return false
	}
	return cmd != root || p.names.Set(cmd.Flags(), p.env) == nil && accepted(cmd)
}

// accepted says whether the license is accepted: then the program without a verb does what init does.
func accepted(cmd *cobra.Command) bool {
	yes, err := cmd.Flags().GetBool("accept-license")
	return err == nil && yes
}

// command is the program with its verbs. Their context ends with the first signal; stopCtx is for the verbs
// that stop a driver.
func (p *program) command(stopCtx context.Context) *cobra.Command {
	p.names = cli.Names{}
	root := p.initCommand(stopCtx)
	root.Use = "nvidia-driver"
	root.Short = "bring the NVIDIA driver of this image up on a node"
	root.Long = `nvidia-driver brings the driver of this image up on the node, keeps it serving, and takes it down or hands it over.

Without a command it prints this text; with --accept-license alone it does what init does.`
	root.Args = unknown
	run := root.RunE
	var showVersion *bool
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *showVersion {
			_, err := fmt.Fprintln(p.stdout, "driver-entrypoint", p.versions())
			return err
		}
		if !accepted(cmd) {
			return cmd.Help()
		}
		return run(cmd, args)
	}
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "nfd-dir" {
			err = fmt.Errorf("%w: it is gone, leave it out: GPU feature discovery labels the node", err)
		} else if ok {
			err = fmt.Errorf("%w (this is version %s; of a flag of a newer version, set the environment variable: versions that do not know it ignore it)", err, version.Own())
		}
		return usageError{cli.Explain(err)}
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpFunc(cli.Help)
	root.SetUsageFunc(usage)
	// Not root.Version: its template makes the linker keep every exported method, a sixth of the program.
	showVersion = root.Flags().Bool("version", false, "print the version of this program and of the image's driver")
	root.PersistentFlags().StringVar(&p.logFormat, "log-format", "text", "how messages are written to stderr: text or json")
	//nolint:contextcheck // cobra gives each command its context; stopCtx is a second one
	root.AddCommand(p.initCommand(stopCtx), p.probeCommand(), p.statusCommand(), p.waitReadyCommand(), p.preflightCommand(),
		p.compileCommand(), p.bakeCommand(), p.unloadCommand(stopCtx), p.holdersCommand(), p.supportCommand(), p.reloadPeermemCommand(), p.probePeermemCommand(), p.versionCommand(),
		p.withToolkitCommand(stopCtx), p.builderCommand(), p.evictCommand(),
		p.sidecarCommand("nv-fs-ctr-run-with-dtk", "nvidia_fs", "GDS_ENABLED"),
		p.sidecarCommand("gdrcopy-ctr-run-with-dtk", "gdrdrv", "GDRCOPY_ENABLED"))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := p.names.Set(cmd.Flags(), p.env); err != nil {
			return usageError{err}
		}
		if p.logFormat != "text" && p.logFormat != "json" {
			return usageError{fmt.Errorf("--log-format is %q; it must be text or json", p.logFormat)}
		}
		return checkValues(cmd.Flags())
	}
	for _, cmd := range append(root.Commands(), root) {
		p.name(cmd.Flags(), "DRIVER_")
		p.name(cmd.PersistentFlags(), "DRIVER_")
	}
	return root
}

// unknown refuses a verb that does not exist and suggests similar ones.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{errors.New(text)}
}

// noArgs refuses arguments after a verb, as a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, but got %q", cmd.CommandPath(), args)}
	}
	return nil
}

func oneOf(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(words, args[0]) {
			return usageError{
				fmt.Errorf(
					"%s takes one of %s, but got %q",
					cmd.CommandPath(),
					strings.Join(words, ", "),
					args,
				),
			}
		}
		return nil
	}
}
