package main

import (
	"errors"
	"syscall"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runfile"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

// The exit codes, as docs/driver-build.md lists them.
const (
	exitUnexpected = 1
	exitUsage      = 2
	exitSome       = 3
	exitNetwork    = 4
	exitMismatch   = 5
	exitStep       = 6
	exitSignal     = 128
)

// usageError is a mistake in flags, arguments or the matrix, found before anything was done.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// someFailed says that of several targets some failed; their errors have been shown.
var errSomeFailed = errors.New("some targets failed")

func exitCode(err error) int {
	var stop interrupted
	switch {
	case err == nil:
		return 0
	case errors.As(err, &stop):
		if sig, ok := stop.signal.(syscall.Signal); ok {
			return exitSignal + int(sig)
		}
		return exitUnexpected
	case errors.Is(err, errSomeFailed):
		return exitSome
	case is[usageError](err) || is[matrix.Errors](err) || is[*matrix.UnknownError](err) || is[*matrix.IncompatibleError](err) ||
		is[*distros.UnknownError](err) || errors.Is(err, packages.ErrBase) || errors.Is(err, recipe.ErrKernel):
		return exitUsage
	case untrusted(err):
		return exitMismatch
	case errors.Is(err, fetch.ErrUnreachable) || errors.Is(err, fetch.ErrOffline) || is[*registry.PlatformError](err):
		return exitNetwork
	case is[*distros.UnresolvableError](err) || errors.Is(err, apt.ErrSources) || errors.Is(err, rpm.ErrSources) ||
		is[*runner.FailedError](err) || errors.Is(err, errNoRunner):
		return exitStep
	case errors.Is(err, runner.ErrUnavailable):
		return exitNetwork
	default:
		return exitUnexpected
	}
}

// untrusted says whether an error is about content that is not what it should be: a digest, a signature, a format.
func untrusted(err error) bool {
	if is[*fetch.MismatchError](err) {
		return true
	}
	for _, e := range []error{
		apt.ErrSignature, apt.ErrExpired, apt.ErrIndex, dpkg.ErrFormat, dpkg.ErrUnsafePath, verify.ErrUnfit,
		rpm.ErrSignature, rpm.ErrExpired, rpm.ErrIndex, rpm.ErrRollback, rpmdb.ErrFormat,
		rpmfile.ErrFormat, rpmfile.ErrUnsafePath, rpmfile.ErrSignature, rpmfile.ErrDigest, rpmfile.ErrKey,
		runfile.ErrHeader, runfile.ErrChecksum, runfile.ErrPayload, runfile.ErrUnsafe, runfile.ErrTooLarge, runfile.ErrManifest,
		sign.ErrUnsigned, sign.ErrMalformed, sign.ErrForeign, sign.ErrMismatch, sign.ErrAttributes, sign.ErrUnsupported, modsign.ErrRequest,
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
