package main

import (
	"errors"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/drivertoolkit"
	"github.com/driver-container/driver-container/node/headers"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// The exit codes. Their comments are the table in docs/operate.md.
const (
	// exitDone means stopped; or left in place because it is in use (`--on-busy=detach`); or a
	// signal ended the container before it began.
	exitDone = 0
	// exitFailure means unexpected: the message says what.
	exitFailure = 1
	// exitUsage means wrong flags, environment or mounted configuration.
	exitUsage = 2
	// exitLocked means that the lock was not free in time (`--lock-timeout`, 20 min).
	exitLocked = 10
	// exitUnsupported means that the node does not fit: the checks of preflight (unless
	// `--preflight-on-failure=wait`), no modules for its kernel in an image without a toolchain, no
	// headers, no compiler.
	exitUnsupported = 11
	// exitCompile means that the compile failed; the message has the last 40 lines, and the path of
	// the complete log.
	exitCompile = 12
	// exitRefused means that the kernel refused a module, or would refuse it (check
	// `module-signing`): signature, symbols, unsupported GPU. The message quotes the kernel.
	exitRefused = 13
	// exitInUse means still in use (`--on-busy=fail`, `unload`).
	exitInUse = 14
	// exitNotReady means not ready: `probe`, `wait-ready`.
	exitNotReady = 15
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// blockedError is what the verb preflight ends with: always 11, whichever check blocks.
type blockedError struct{ error }

func (e blockedError) Unwrap() error { return e.error }

func exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	blocked, _ := errors.AsType[*preflight.BlockedError](err)
	switch {
	case err == nil:
		return exitDone
	case as[usageError](err), is(config.ErrConfig):
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
	case blocked != nil,
		as[*buildtree.NoHeadersError](err),
		as[*kbuild.NoCompilerError](err),
		as[*headers.UnavailableError](err),
		as[*host.NoModulesError](err),
		as[*drivertoolkit.UnavailableError](err):
		return exitUnsupported
	case is(node.ErrLeft), as[*modules.InUseError](err):
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
