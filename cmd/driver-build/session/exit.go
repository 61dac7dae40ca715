package session

import (
	"errors"
	"os"
	"syscall"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/driver"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/auto"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

// The exit codes, as docs/driver-build.md lists them.
const (
	ExitUnexpected = 1
	ExitUsage      = 2
	ExitSome       = 3
	ExitNetwork    = 4
	ExitMismatch   = 5
	ExitStep       = 6
	ExitSignal     = 128
)

// SignalError is the cause of a context that a signal cancelled.
type SignalError struct{ Signal os.Signal }

func (e SignalError) Error() string { return "stopped by signal: " + e.Signal.String() }

// ExitCode is that of a command that ended with err.
func ExitCode(err error) int {
	var stop SignalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &stop):
		if sig, ok := stop.Signal.(syscall.Signal); ok {
			return ExitSignal + int(sig)
		}
		return ExitUnexpected
	case errors.Is(err, batch.ErrSomeFailed):
		return ExitSome
	case is[usageError](err) || is[*matrix.RequestError](err) || is[matrix.Errors](err) || is[*matrix.UnknownError](err) || is[*matrix.IncompatibleError](err) ||
		is[*distros.UnknownError](err) || errors.Is(err, packages.ErrBase) || errors.Is(err, recipe.ErrKernel):
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
	if is[*fetch.MismatchError](err) {
		return true
	}
	for _, e := range []error{
		apt.ErrSignature, apt.ErrExpired, apt.ErrIndex, dpkg.ErrFormat, dpkg.ErrUnsafePath, verify.ErrUnfit,
		rpm.ErrSignature, rpm.ErrExpired, rpm.ErrIndex, rpm.ErrRollback, rpmdb.ErrFormat,
		rpmfile.ErrFormat, rpmfile.ErrUnsafePath, rpmfile.ErrSignature, rpmfile.ErrDigest, rpmfile.ErrKey,
		runfile.ErrHeader, runfile.ErrChecksum, runfile.ErrPayload, runfile.ErrUnsafe, runfile.ErrTooLarge, runfile.ErrManifest,
		driver.ErrContent, rootfs.ErrFormat, rootfs.ErrUnsafePath, rootfs.ErrTooLarge, oci.ErrFormat,
		sign.ErrUnsigned, sign.ErrMalformed, sign.ErrForeign, sign.ErrMismatch, sign.ErrAttributes, sign.ErrUnsupported, modsign.ErrRequest, bundle.ErrUnsound,
		signature.ErrUnsigned, signature.ErrForeign, signature.ErrSubject, signature.ErrMalformed,
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
