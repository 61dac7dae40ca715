package drivertoolkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kbuild"
)

// awaitRequest bounds how long the toolkit container waits for a request that it can read.
const awaitRequest = 10 * time.Minute

// Builder compiles in the toolkit container.
type Builder struct {
	Dir        string // the shared folder
	Log        *slog.Logger
	Companions []string // asked for by this container's environment; for a warning
	Path       string   // search path of programs

	Root    string        // of the toolkit; "": "/"
	Scratch string        // "": /var/tmp/nvidia-driver, as in an image: equal paths give equal modules
	Poll    time.Duration // 0: a second
}

// errOther ends a compile that nobody waits for any more.
var errOther = errors.New("the driver container has another request")

// Run serves requests until ctx ends, and returns nil then. It keeps the flag driver_built as long as the
// driver container does not take it back. Errors: the folder cannot be used, or its program is another
// version (the container has to be started again).
func (b Builder) Run(ctx context.Context) error {
	b.Root, b.Scratch, b.Poll = cmp.Or(b.Root, "/"), cmp.Or(b.Scratch, "/var/tmp/nvidia-driver"), cmp.Or(b.Poll, time.Second)
	f, err := openFolder(b.Dir)
	if err != nil {
		return err
	}
	defer f.close()
	done, raised, said, since := "", false, "", time.Now()
	for ctx.Err() == nil {
		r, err := readRequest(f)
		switch {
		case errors.Is(err, errSchema):
			return fmt.Errorf("read the request of the driver container: %w: this container starts again with that one", err)
		case err != nil && time.Since(since) > awaitRequest:
			return fmt.Errorf("no request of the driver container for %s: %w", awaitRequest, err)
		case err != nil && err.Error() != said:
			said = err.Error()
			b.Log.Warn("waiting for a request of the driver container", "error", err)
		case err == nil:
			since = time.Now()
			if lost := raised && !f.has(built); r.Run != done || lost {
				if lost && r.Run == done {
					b.Log.Warn("the flag of the modules was removed; they are looked at again", "path", filepath.Join(b.Dir, built))
				}
				done, raised = r.Run, b.serve(ctx, f, r)
			}
		}
		sleep(ctx, b.Poll)
	}
	return nil
}

func readRequest(f folder) (request, error) {
	data, err := f.read(requestFile, maxRequest)
	if err != nil {
		return request{}, err
	}
	r, err := parseRequest(data)
	if err != nil {
		return request{}, fmt.Errorf("%s: %w", requestFile, err)
	}
	return r, nil
}

// serve answers one request. It reports whether the modules are there.
func (b Builder) serve(ctx context.Context, f folder, r request) bool {
	a := answer{Schema: schema, Run: r.Run, State: stateIdle}
	if !r.Compile {
		b.Log.Info("nothing to compile", "reason", r.Reason)
		b.tell(f, a)
		return false
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	limited, cancel := context.WithTimeoutCause(ctx, buildDeadline, fmt.Errorf("it took longer than %s", buildDeadline))
	defer cancel()
	beats := b.beat(f, r.Run, stop) //nolint:contextcheck // it ends with beats.end, after the compile
	set, compiler, err := b.compile(limited, f, r, beats)
	beats.end()
	a.Compiler = compiler
	a.Beat = beats.count.Load() + 1
	if err == nil {
		a.Set = filepath.Base(set.Dir)
		a.Manifest, err = manifestDigest(f, a.Set)
	}
	switch failed, ok := errors.AsType[*kbuild.CompileError](err); {
	case errors.Is(err, errOther):
		b.Log.Info("the compile was stopped", "reason", err)
		return false
	case ctx.Err() != nil: // a signal: nothing is said, the next container begins again
		return false
	case err == nil:
		a.State = stateBuilt
	case ok:
		a.State, a.Failure = stateCompiler, &failure{Jobs: failed.Jobs, Killed: failed.Killed, Full: errors.Is(failed.Err, unix.ENOSPC),
			Message: failed.Err.Error(), Errors: failed.Errors, Tail: failed.Tail}
	case isBroken(err):
		a.State, a.Reason = stateBroken, err.Error()
	default:
		a.State, a.Reason = stateFailed, explain(err, b.Dir).Error()
	}
	if err != nil {
		b.Log.Error("no modules", "error", err)
	}
	b.tell(f, a)
	switch a.State {
	case stateBroken:
		b.raise(f, broken, r.Run)
	case stateBuilt:
		b.raise(f, built, r.Run)
		b.Log.Info("the modules are ready for the driver container", "path", filepath.Join(b.Dir, modulesDir, a.Set))
		return true
	}
	return false
}

// tell writes an answer. If that fails, the driver container finds out by its deadline.
func (b Builder) tell(f folder, a answer) {
	if err := put(f, answerFile, a); err != nil {
		b.Log.Error("the driver container cannot be told", "error", explain(err, b.Dir))
	}
}

func (b Builder) raise(f folder, flag, run string) {
	if err := f.raise(flag, run); err != nil {
		b.Log.Error("flag not written", "flag", flag, "error", explain(err, b.Dir))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
