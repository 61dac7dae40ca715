// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and
// docs/driver-build.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // to silence it
	"os"
	"os/signal"
	"syscall"

	"github.com/driver-container/driver-container/cmd/driver-build/memory"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/batch"
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
	"github.com/driver-container/driver-container/images/runner/chroot"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

// interrupted is the cause of a context that a signal cancelled.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "stopped by signal: " + i.signal.String() }

func main() {
	chroot.Init()             // this process may be the inside of a compile
	log.SetOutput(io.Discard) // libraries write to it: HTTP/2 a line for each transfer to a BuildKit daemon that is cut off
	if err := memory.Prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "driver-build:", err)
		os.Exit(exitUnexpected)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		cancel(interrupted{<-signals})
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a second signal ends the process at once
	}()
	os.Exit(run(ctx, &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}, os.Args[1:]))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, a *app, args []string) int {
	cmd := newRootCmd(a) //nolint:contextcheck // commands get theirs from ExecuteContext
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err != nil {
		fmt.Fprintln(a.stderr, "driver-build:", err)
	}
	return exitCode(err)
}

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
	case errors.Is(err, batch.ErrSomeFailed):
		return exitSome
	case is[usageError](err) || is[*matrix.RequestError](err) || is[matrix.Errors](err) || is[*matrix.UnknownError](err) || is[*matrix.IncompatibleError](err) ||
		is[*distros.UnknownError](err) || errors.Is(err, packages.ErrBase) || errors.Is(err, recipe.ErrKernel):
		return exitUsage
	case untrusted(err):
		return exitMismatch
	case errors.Is(err, fetch.ErrUnreachable) || errors.Is(err, fetch.ErrOffline) || is[*oci.PlatformError](err):
		return exitNetwork
	case is[*distros.UnresolvableError](err) || errors.Is(err, apt.ErrSources) || errors.Is(err, rpm.ErrSources) ||
		is[*runner.FailedError](err) || errors.Is(err, auto.ErrNone):
		return exitStep
	case errors.Is(err, runner.ErrUnavailable):
		return exitNetwork
	default:
		return exitUnexpected
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
