package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/node/cli"
)

// Usage marks an error as a mistake in flags, arguments or the matrix, which ends with ExitUsage.
func Usage(err error) error { return failure.Of(failure.Usage, err) }

// Usagef is Usage of fmt.Errorf.
func Usagef(format string, args ...any) error { return failure.Errorf(failure.Usage, format, args...) }

// Renamed is the annotation of a flag's former name: its name now.
const Renamed = "renamed"

// rare is the annotation of a flag that few people set.
const rare = "rare"

// Hide leaves flags that few people set out of the help, which has their names in one line.
func Hide(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		flag.Hidden = true
		flag.Annotations = map[string][]string{rare: {}}
	}
}

// FormerName declares the former name of a flag, which works for one version.
func FormerName(f *pflag.FlagSet, old, now string) {
	f.Var(f.Lookup(now).Value, old, "the former name of --"+now)
	f.Lookup(old).Hidden = true
	f.Lookup(old).Annotations = map[string][]string{Renamed: {now}}
}

// Rare says whether a flag is one of Hide.
func Rare(f *pflag.Flag) bool { return f.Annotations[rare] != nil }

// removed says what takes the place of flags that went with this version.
var removed = map[string]string{
	"builder-ca": tlsNow, "builder-cert": tlsNow, "builder-key": tlsNow, "builder-name": "set BUILDKIT_TLS_SERVERNAME in the environment",
}

const tlsNow = "give --builder-tls DIR with ca.pem, cert.pem and key.pem"

// Root makes cmd the root of all commands: it writes to the App's streams and has the flags of every command.
func (a *App) Root(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	cmd.SetFlagErrorFunc(flagError)
	cmd.PersistentPreRun = func(c *cobra.Command, _ []string) {
		a.begun = true
		c.Flags().Visit(func(f *pflag.Flag) {
			if now := f.Annotations[Renamed]; now != nil {
				a.Warnings(fmt.Sprintf("--%s is called --%s now; the former name goes with the next version", f.Name, now[0]))
			}
		})
	}
	a.addFlags(cmd.PersistentFlags())
}

// Execute runs the command that args name, prints its error and returns the exit code. The cause of a
// cancelled ctx takes the place of the command's error.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root { // else it takes any word for a shell
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd, err := root.ExecuteContextC(ctx)
	for _, end := range slices.Backward(a.ends) {
		err = errors.Join(err, end())
	}
	if err != nil && !a.begun && failure.KindOf(err) == failure.Unexpected { // cobra's about arguments
		err = Usagef("%s; usage: %s", strings.Join(strings.Fields(err.Error()), " "), cmd.UseLine())
	}
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

// flagError says what a value has to be, in place of the error of Go's parsers, and which flag has a name like
// one that is unknown.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && failure.KindOf(err) == failure.Usage { // of Check
		return Usagef("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage(cli.Explain(err))
	}
	if now := removed[unknown.GetSpecifiedName()]; now != "" {
		return Usagef("%w: it is gone, %s", err, now)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := distros.Nearest(unknown.GetSpecifiedName(), names); len(near) > 0 {
		return Usagef("%w: did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return Usagef("%w: %q lists the flags", err, cmd.CommandPath()+" --help")
}
