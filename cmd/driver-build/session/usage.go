package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
)

// Usage marks an error as a mistake in flags, arguments or the matrix, which ends with ExitUsage.
func Usage(err error) error { return failure.Of(failure.Usage, err) }

// Usagef is Usage of fmt.Errorf.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Root makes cmd the root of all commands: it writes to the App's streams and has the flags of every command.
func (a *App) Root(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	cmd.SetFlagErrorFunc(flagError)
	a.addFlags(cmd.PersistentFlags())
}

// Execute runs the command that args name, prints its error and returns the exit code. The cause of a
// cancelled ctx takes the place of the command's error.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	refuseShells(root)
	err := root.ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		if err = cause; a.opened {
			err = fmt.Errorf("%w; downloads are kept: run the same command again", cause)
		}
	}
	if err != nil {
		fmt.Fprintln(a.Stderr, "driver-build:", err)
	}
	return ExitCode(err)
}

// refuseShells makes cobra's command completion refuse shells that it does not know, and arguments.
func refuseShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range c.Commands() {
			shell.Args = NoArgs
		}
	}
}

// NoArgs refuses arguments; a likely mistake is a system or driver without its flag.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "targets are given with --os and --driver"
	switch near := distros.Nearest(args[0], names); {
	case len(near) > 0:
		hint = "did you mean " + cmd.CommandPath() + " " + strings.Join(near, " or ") + "?"
	case len(names) > 0:
		hint += "; commands of " + cmd.Name() + " are " + strings.Join(names, ", ")
	}
	return Usagef("unexpected argument %q: %s", args[0], hint)
}

// ExactArgs refuses another number of arguments than n.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return Usagef("%s: %d arguments are given, %d are needed: usage: %s", cmd.Name(), len(args), n, cmd.UseLine())
		}
		return nil
	}
}

// gone are the flags of earlier versions, with what to use instead. An entry stays for one version.
var gone = map[string]string{
	"dry-run": "matrix add-driver prints the entry and writes nothing",
	"index":   "use --download, or a .sha256sum file beside the archive",
}

// flagError says what a value has to be, in place of the error of Go's parsers, and which flags have a name
// like one that is unknown.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint := fmt.Sprintf("%q lists the flags", cmd.CommandPath()+" --help")
		if near := distros.Nearest(unknown.GetSpecifiedName(), names); len(near) > 0 {
			hint = "did you mean --" + strings.Join(near, " or --") + "?"
		}
		if instead := gone[unknown.GetSpecifiedName()]; instead != "" {
			return Usagef("--%s is gone: %s", unknown.GetSpecifiedName(), instead)
		}
		err = fmt.Errorf("%w: %s", err, hint)
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		want := map[string]string{"int": "a whole number", "bool": "true or false", "stringSlice": "values separated by commas, without quotes"}
		if text, known := want[wrong.GetFlag().Value.Type()]; known {
			err = fmt.Errorf("--%s %q: give %s", wrong.GetFlag().Name, wrong.GetValue(), text)
		}
	}
	return Usage(err)
}
