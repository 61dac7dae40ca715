package drivertoolkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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
var errOther = errors.New("the driver container has another request, or none")

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
			level := slog.LevelWarn
			if errors.Is(err, fs.ErrNotExist) { // the driver container is about to write one
				level = slog.LevelInfo
			}
			b.Log.Log(ctx, level, "waiting for a request of the driver container", "error", err)
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

// withdrawn reports whether the driver container has taken a request back, and perhaps written another one.
func withdrawn(f folder, run string) bool {
	r, err := readRequest(f)
	return errors.Is(err, fs.ErrNotExist) || err == nil && r.Run != run
}

// serve answers one request. It reports whether the modules are there.
func (b Builder) serve(ctx context.Context, f folder, r request) bool {
	if !r.Compile {
		b.Log.Info("nothing to compile", "reason", r.Reason)
		return false
	}
	limited, cancel := context.WithTimeoutCause(ctx, buildDeadline, fmt.Errorf("it took longer than %s", buildDeadline))
	defer cancel()
	limited, stop := context.WithCancelCause(limited)
	defer stop(nil)
	go func() { // the driver container may not wait any more
		for limited.Err() == nil {
			if withdrawn(f, r.Run) {
				stop(errOther)
			}
			sleep(limited, b.Poll)
		}
	}()
	a := answer{Schema: schema, Run: r.Run}
	set, err := b.compile(limited, f, r)
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
		b.raise(f, built, r.Run) // before the answer, because the driver container may take its request back after it
	case ok:
		a.State, a.Failure = stateCompiler, &failure{Jobs: failed.Jobs, Killed: failed.Killed, Full: errors.Is(failed.Err, unix.ENOSPC),
			Message: failed.Err.Error(), Errors: failed.Errors, Tail: failed.Tail}
	default:
		a.State, a.Reason = stateFailed, explain(err, b.Dir).Error()
		if isBroken(err) {
			b.raise(f, broken, r.Run)
		}
	}
	if err != nil {
		b.Log.Error("no modules", "error", err)
	}
	if err := put(f, answerFile, a); err != nil { // the driver container finds out by its deadline
		b.Log.Error("the driver container cannot be told", "error", explain(err, b.Dir))
	} else if a.State == stateBuilt {
		b.Log.Info("the modules are ready for the driver container", "path", filepath.Join(b.Dir, modulesDir, a.Set))
	}
	return a.State == stateBuilt
}

// raise raises a flag for a request, unless the request is withdrawn. The driver container withdraws the
// request before it lowers the flags: a flag that was raised in between, or after, is lowered here.
func (b Builder) raise(f folder, flag, run string) {
	if withdrawn(f, run) {
		return
	}
	err := f.raise(flag, run)
	if withdrawn(f, run) && f.raised(flag, run) {
		err = errors.Join(err, f.lower(flag))
	}
	if err != nil {
		b.Log.Error("flag not written", "flag", flag, "error", explain(err, b.Dir))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
