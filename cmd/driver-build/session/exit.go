package session

import (
	"errors"
	"os"
	"syscall"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/advisory"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/fleet/nodes"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/redist"
	"github.com/driver-container/driver-container/images/redistribution"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/auto"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/toolkit"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

// The exit codes. Their comments are the table in docs/driver-build.md.
const (
	// ExitDone means done.
	ExitDone = 0
	// ExitUnexpected means unexpected: this machine (a disk that fills up, a limit of memory that is too low).
	ExitUnexpected = 1
	// ExitUsage means wrong flags, a wrong matrix, unknown names, a pair that cannot work, outputs and a cache
	// that cannot be written, programs for the image that are missing: nothing was downloaded. Or the base is of
	// another system, or an image of `--kernel-from` has no headers or no compiler. Or an image with a vGPU
	// guest driver would go to a public registry.
	ExitUsage = 2
	// ExitSome means that there are several targets, and some failed; the others are done. Or `check`, `doctor`,
	// `lock --check`, `drivers --lagging` or `--deny` found something, or `fleet --format values` no node that
	// gets a driver.
	ExitSome = 3
	// ExitNetwork means that the network, a registry or a BuildKit daemon failed, after retries; that a registry
	// refuses the push, before the build; or, with `--offline`, that the cache lacks something.
	ExitNetwork = 4
	// ExitMismatch means wrong content: checksum, size, signature, expiry, format; another name, version or
	// architecture than the index or the matrix says; something missing or damaged inside; more than the bounds
	// of [security.md](security.md). Or `verify` found an error, such as an image that is not signed.
	ExitMismatch = 5
	// ExitStep means that a step failed: modules do not compile, this machine cannot compile them, packages
	// cannot be resolved, package sources cannot be used, or a token or program did not sign.
	ExitStep = 6
	// ExitUnserved means that `fleet --format values`, `github`, `gitlab` or `json` found nodes with a GPU that get no
	// driver, for a reason that `--allow-unserved` does not name.
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
	var stop SignalError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &stop):
		if sig, ok := stop.Signal.(syscall.Signal); ok {
			return ExitSignal + int(sig)
		}
		return ExitUnexpected
	case is[*fleet.UnservedError](err):
		return ExitUnserved
	case errors.Is(err, batch.ErrSomeFailed) || is[*advisory.DeniedError](err) || errors.Is(err, fleet.ErrNoPool):
		return ExitSome
	case is[usageError](err) || is[*matrix.RequestError](err) || is[matrix.Errors](err) || is[*matrix.UnknownError](err) || is[*matrix.IncompatibleError](err) ||
		is[*distros.UnknownError](err) || is[*redistribution.PublicError](err) || is[*bundle.SelectionError](err) || errors.Is(err, packages.ErrBase) || errors.Is(err, recipe.ErrKernel) ||
		errors.Is(err, toolkit.ErrUnsuitable) || errors.Is(err, bounded.ErrNotRegular):
		return ExitUsage
	case untrusted(err):
		return ExitMismatch
	case errors.Is(err, fetch.ErrUnreachable) || errors.Is(err, fetch.ErrOffline) || is[*oci.PlatformError](err):
		return ExitNetwork
	case is[*distros.UnresolvableError](err) || errors.Is(err, apt.ErrSources) || errors.Is(err, rpm.ErrSources) ||
		is[*runner.FailedError](err) || errors.Is(err, auto.ErrNone) || errors.Is(err, attestation.ErrSigner):
		return ExitStep
	case errors.Is(err, runner.ErrUnavailable):
		return ExitNetwork
	default:
		return ExitUnexpected
	}
}

// untrusted says whether an error is about content that is wrong: a digest, a signature, a format.
func untrusted(err error) bool {
	if is[*fetch.MismatchError](err) || is[*releases.DisagreementError](err) || is[*bounded.TooLargeError](err) {
		return true
	}
	for _, e := range []error{
		fetch.ErrTooLarge, apt.ErrSignature, apt.ErrExpired, apt.ErrIndex, dpkg.ErrFormat, dpkg.ErrUnsafePath, verify.ErrUnfit,
		rpm.ErrSignature, rpm.ErrExpired, rpm.ErrIndex, rpm.ErrRollback, rpmdb.ErrFormat,
		rpmfile.ErrFormat, rpmfile.ErrUnsafePath, rpmfile.ErrSignature, rpmfile.ErrDigest, rpmfile.ErrKey,
		runfile.ErrHeader, runfile.ErrChecksum, runfile.ErrPayload, runfile.ErrUnsafe, runfile.ErrTooLarge, runfile.ErrManifest,
		redist.ErrArchive, driver.ErrContent, rootfs.ErrFormat, rootfs.ErrUnsafePath, rootfs.ErrTooLarge, oci.ErrFormat, oci.ErrDiffID, oci.ErrDescriptor,
		sign.ErrUnsigned, sign.ErrMalformed, sign.ErrForeign, sign.ErrMismatch, sign.ErrAttributes, sign.ErrUnsupported, modsign.ErrRequest, bundle.ErrUnsound,
		signature.ErrUnsigned, signature.ErrForeign, signature.ErrSubject, signature.ErrMalformed, nodes.ErrFormat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
