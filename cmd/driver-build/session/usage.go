package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/node/cli"
)

// Usage marks an error as a mistake in flags, arguments or the matrix, which ends with ExitUsage.
func Usage(err error) error { return failure.Of(failure.Usage, err) }

// Usagef is Usage of fmt.Errorf.
func Usagef(
	format string,
	args ...any,
) error {
	return failure.Errorf(failure.Usage, format, args...)
}

// Root makes cmd the root of all commands: it writes to the App's streams and has the flags of
// every command.
func (a *App) Root(cmd *cobra.Command) {
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	cmd.SetFlagErrorFunc(flagError)
	cmd.PersistentPreRun = func(*cobra.Command, []string) { a.begun = true }
	a.addFlags(cmd.PersistentFlags())
}

// Execute runs the command that args name, prints its error and returns the exit code. The cause of
// a cancelled ctx takes the place of the command's error.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.InitDefaultCompletionCmd(args...)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion": // else it takes any word for a shell
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help": // else it knows no mistake
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	for _, end := range slices.Backward(a.ends) {
		err = errors.Join(err, end())
	}
	// cobra's about arguments
	if err != nil && !a.begun && failure.KindOf(err) == failure.Unexpected {
		err = Usagef("%s; usage: %s", strings.Join(strings.Fields(err.Error()), " "), cmd.UseLine())
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
		if a.opened {
			err = fmt.Errorf("%w; downloads are kept: run the same command again", cause)
		}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: free some space, or name a folder of another disk (--cache, TMPDIR, or that of the output)", err)
	}
	if err != nil {
		fmt.Fprintln(a.Stderr, visible("driver-build: "+err.Error()))
	}
	return ExitCode(err)
}

// flagError says what a value has to be, in place of the error of Go's parsers, and which flag has
// a name like one that is unknown.
func flagError(cmd *cobra.Command, err error) error {
	// of Check
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok &&
		failure.KindOf(err) == failure.Usage {
		return Usagef("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage(cli.Explain(err))
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := distros.Nearest(unknown.GetSpecifiedName(), names); len(near) > 0 {
		return Usagef("%w: did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return Usagef("%w: %q lists the flags", err, cmd.CommandPath()+" --help")
}

// The exit codes. Their comments are the table in docs/build.md.
const (
	// ExitDone means done.
	ExitDone = 0
	// ExitUnexpected means unexpected: this machine (a disk that fills up, a limit of memory that
	// is too low).
	ExitUnexpected = 1
	// ExitUsage means wrong flags, a wrong matrix, unknown names, a pair that cannot work, an
	// output or cache that cannot be written, missing programs for the image; a base of another
	// system, an image of `--kernel-from` without headers or compiler, a vGPU guest driver on its
	// way to a public registry.
	ExitUsage = 2
	// ExitSome means that some of several targets failed and the others are done; or `check`,
	// `doctor`, `lock --check`, `drivers --lagging` or `--deny` found something, or `fleet --format
	// values` has no pool.
	ExitSome = 3
	// ExitNetwork means that the network, a registry or a BuildKit daemon failed, after retries; a
	// registry refuses the push; with `--offline`, the cache lacks something.
	ExitNetwork = 4
	// ExitMismatch means wrong content: checksum, size, signature, expiry, format, name, version,
	// architecture; something missing or damaged inside; more than the bounds of
	// [security.md](security.md). Or `verify` found an error.
	ExitMismatch = 5
	// ExitStep means that a step failed: modules do not compile, this machine cannot compile them,
	// packages cannot be resolved, package sources cannot be used, or a token or program did not
	// sign.
	ExitStep = 6
	// ExitUnserved means that `fleet` found nodes with a GPU that get no driver, for a reason that
	// `--allow-unserved` does not name.
	ExitUnserved = 7
	// ExitExposed means that `audit` found nodes whose driver has known CVEs, is no longer
	// supported, is known to be bad or is not known, as far as `--fail-on` names it.
	ExitExposed = 8
	// ExitSignal means that a signal stopped the run, plus the number of the signal: 130 for
	// SIGINT, 143 for SIGTERM.
	ExitSignal = 128
)

// SignalError is the cause of a context that a signal cancelled.
type SignalError struct{ Signal syscall.Signal }

func (e SignalError) Error() string { return "stopped by signal: " + e.Signal.String() }

// ExitCode is that of a command that ended with err.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if stop, ok := errors.AsType[SignalError](err); ok {
		return ExitSignal + int(stop.Signal)
	}
	return map[failure.Kind]int{
		failure.Unserved: ExitUnserved, failure.Exposed: ExitExposed, failure.Some: ExitSome, failure.Usage: ExitUsage, failure.Content: ExitMismatch,
		failure.Network: ExitNetwork, failure.Step: ExitStep, failure.Unexpected: ExitUnexpected,
	}[failure.KindOf(err)]
}
