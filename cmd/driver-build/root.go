package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/images/recipe"
)

const rootLong = `driver-build turns rows of a version matrix into NVIDIA driver images: the user-mode driver, the kernel module
sources, a compiler, and driver-entrypoint to bring them up on a node. It needs no container daemon, no root and no
Dockerfile; the same inputs give the same digest on any machine. With --kernel, BuildKit or a chroot compiles the modules ahead of time.

Results go to stdout, one reference@sha256:... a line; everything else goes to stderr.

Exit codes: 0 done, 1 unexpected, 2 bad flags or matrix, 3 some targets failed or a check found fault, 4 network or registry,
5 checksum or signature mismatch or unfit image, 6 a step failed, 130 interrupted, 143 terminated.`

const rootExample = `  driver-build --os debian12 --driver 535.261.03 --output oci:dist
  driver-build --os ubuntu16.04 --driver 418.87.01 --push --repository registry.example.com/gpu/driver
  driver-build --os debian12 --driver 535.261.03 --arch amd64 --arch arm64 --dry-run`

func newRootCmd(a *app) *cobra.Command {
	var o buildFlags
	cmd := &cobra.Command{
		Use: "driver-build --os SYSTEM --driver VERSION", Short: "Build NVIDIA driver images from a version matrix",
		Long: rootLong, Example: rootExample, Args: noArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.build(cmd.Context(), o) },
	}
	cmd.SetOut(a.stdout)
	cmd.SetErr(a.stderr)
	cmd.SetFlagErrorFunc(flagError)
	cmd.CompletionOptions.HiddenDefaultCmd = false
	a.globalFlags(cmd.PersistentFlags())
	o.flags(cmd.Flags())
	cmd.AddCommand(newListCmd(a), newKernelsCmd(a), newFetchCmd(a), newInspectCmd(a), newVerifyCmd(a), newSignCmd(a), newPushCmd(a), newVersionCmd(a),
		newDriversCmd(a), newMatrixCmd(a), newLockCmd(a), newCheckCmd(a), newPlanCmd(a), newReportCmd(a))
	return cmd
}

// noArgs refuses arguments; a likely mistake is a system or driver without its flag.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "targets are given with --os and --driver"
	switch {
	case len(names) > 0 && cmd.HasParent():
		hint = "commands of " + cmd.Name() + " are " + strings.Join(names, ", ")
	case len(names) > 0:
		hint += "; commands are " + strings.Join(names, ", ")
	}
	return usageError{fmt.Errorf("unexpected argument %q: %s", args[0], hint)}
}

// exactArgs refuses another number of arguments.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s: %d arguments are given, %d are needed: usage: %s", cmd.Name(), len(args), n, cmd.UseLine())}
		}
		return nil
	}
}

// flagError says what a value has to be, in place of the error of Go's parsers.
func flagError(_ *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := map[string]string{"int": "a whole number", "bool": "true or false", "stringSlice": "values separated by commas, without quotes"}
		if text, known := want[wrong.GetFlag().Value.Type()]; known {
			err = fmt.Errorf("--%s %q: give %s", wrong.GetFlag().Name, wrong.GetValue(), text)
		}
	}
	return usageError{err}
}

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
