package session

import (
	"errors"
	"os"
	"syscall"

	"github.com/driver-container/driver-container/distros/failure"
)

// The exit codes. Their comments are the table in docs/build.md.
const (
	// ExitDone means done.
	ExitDone = 0
	// ExitUnexpected means unexpected: this machine (a disk that fills up, a limit of memory that is too low).
	ExitUnexpected = 1
	// ExitUsage means wrong flags, a wrong matrix, unknown names, a pair that cannot work, an output or cache that
	// cannot be written, missing programs for the image; a base of another system, an image of `--kernel-from`
	// without headers or compiler, a vGPU guest driver on its way to a public registry.
	ExitUsage = 2
	// ExitSome means that some of several targets failed and the others are done; or `check`, `doctor`,
	// `lock --check`, `drivers --lagging` or `--deny` found something, or `fleet --format values` has no pool.
	ExitSome = 3
	// ExitNetwork means that the network, a registry or a BuildKit daemon failed, after retries; a registry
	// refuses the push; with `--offline`, the cache lacks something.
	ExitNetwork = 4
	// ExitMismatch means wrong content: checksum, size, signature, expiry, format, name, version, architecture;
	// something missing or damaged inside; more than the bounds of [security.md](security.md). Or `verify` found
	// an error.
	ExitMismatch = 5
	// ExitStep means that a step failed: modules do not compile, this machine cannot compile them, packages
	// cannot be resolved, package sources cannot be used, or a token or program did not sign.
	ExitStep = 6
	// ExitUnserved means that `fleet` found nodes with a GPU that get no driver, for a reason that
	// `--allow-unserved` does not name.
	ExitUnserved = 7
	// ExitSignal means that a signal stopped the run, plus the number of the signal: 130 for SIGINT, 143 for
	// SIGTERM.
	ExitSignal = 128
)

// SignalError is the cause of a context that a signal cancelled.
type SignalError struct{ Signal os.Signal }

func (e SignalError) Error() string { return "stopped by signal: " + e.Signal.String() }

// ExitCode is that of a command that ended with err.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	var stop SignalError
	if errors.As(err, &stop) {
		if sig, ok := stop.Signal.(syscall.Signal); ok {
			return ExitSignal + int(sig)
		}
		return ExitUnexpected
	}
	return map[failure.Kind]int{
		failure.Unserved: ExitUnserved, failure.Some: ExitSome, failure.Usage: ExitUsage, failure.Content: ExitMismatch,
		failure.Network: ExitNetwork, failure.Step: ExitStep, failure.Unexpected: ExitUnexpected,
	}[failure.KindOf(err)]
}
