package main

import (
	"errors"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/headers"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// Exit codes, as docs/operations.md lists them.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitLocked      = 10
	exitUnsupported = 11
	exitCompile     = 12
	exitRefused     = 13
	exitInUse       = 14
	exitNotReady    = 15
)

// errQuiet marks errors whose text has been printed already.
var errQuiet = errors.New("")

type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// blockedError is what the verb preflight ends with: always 11, whichever check blocks.
type blockedError struct{ err error }

func (e blockedError) Error() string { return e.err.Error() }
func (e blockedError) Unwrap() error { return e.err }

func exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	blocked, _ := errors.AsType[*preflight.BlockedError](err)
	switch {
	case err == nil:
		return 0
	case as[usageError](err), is(node.ErrConfig):
		return exitUsage
	case is(lock.ErrHeld):
		return exitLocked
	case as[blockedError](err):
		return exitUnsupported
	case as[*kbuild.CompileError](err):
		return exitCompile
	case as[*kmod.RefusedError](err):
		return exitRefused
	case blocked != nil && blocked.Has(preflight.Signing) && len(blocked.Checks) == 1:
		return exitRefused
	case blocked != nil, as[*kbuild.NoHeadersError](err), as[*kbuild.NoCompilerError](err), as[*headers.UnavailableError](err),
		as[*host.NoModulesError](err):
		return exitUnsupported
	case is(node.ErrLeft), as[*node.InUseError](err):
		return exitInUse
	case is(status.ErrNotReady):
		return exitNotReady
	}
	return exitFailure
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
