package drivertoolkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// buildDeadline bounds one compile.
const buildDeadline = time.Hour

// Options say where the driver container asks.
type Options struct {
	Dir     string        // the shared folder
	Timeout time.Duration // within which the toolkit container has to begin
	Log     *slog.Logger

	Program string        // "": this program
	Image   string        // root of the driver container; "": "/"
	Poll    time.Duration // 0: a second
}

// Job is one compile for the node's kernel.
type Job struct {
	Info       driverinfo.Description
	Kernel     string // release
	Flavour    string
	Modules    []string
	Optional   []string
	Companions []kbuild.Companion // with their folders in the image
	RDMA       string             // name of the node's RDMA driver, "": none
	MaxThreads int
	Work       string                // an empty or missing folder of this container, for the result
	Fits       func(kbuild.Key) bool // whether a set is what is wanted
	Waits      func(reason string)   // told what is waited for; may be nil
}

// UnavailableError says that the toolkit container gives no modules, for another reason than that the driver
// does not compile.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the Driver Toolkit container gives no modules: %v", e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Compile lets the toolkit container compile, and returns the set, which is in Job.Work. Modules that an
// earlier container of this pod got are taken without a compile. Errors: ctx's cause, *kbuild.CompileError if
// the driver does not compile, else *UnavailableError.
func Compile(ctx context.Context, o Options, j Job) (*kbuild.Set, error) {
	set, err := compile(ctx, o, j)
	switch {
	case err == nil:
		return set, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, new(*kbuild.CompileError)):
		return nil, err
	}
	return nil, &UnavailableError{err}
}

func compile(ctx context.Context, o Options, j Job) (*kbuild.Set, error) {
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	f, err := openFolder(o.Dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; mount one emptyDir there in both containers", err)
		}
		return nil, err
	}
	defer f.close()
	unlock, err := f.lock()
	if err != nil {
		return nil, fmt.Errorf("use %s: %w", o.Dir, err)
	}
	defer unlock()
	if set, err := f.earlier(ctx, j); err != nil {
		return nil, err
	} else if set != nil {
		o.Log.Info("modules found that the Driver Toolkit container compiled before", "path", o.Dir)
		if err := f.raise(built, randomName()); err != nil { // the flag is for programs beside ours
			o.Log.Warn("the flag of the modules was not raised", "error", err)
		}
		return set, nil
	}
	run, err := f.ask(ctx, o, j)
	if err != nil {
		return nil, explain(err, o.Dir)
	}
	a, err := f.await(ctx, o, j, run)
	if err == nil {
		if set, err := f.take(ctx, a.Set, a.Manifest, j); err == nil {
			return set, nil
		} else if ctx.Err() == nil {
			return nil, fmt.Errorf("its modules are refused: %w", err)
		}
	}
	// The toolkit container stops its compile, if there is one.
	_ = put(f, requestFile, request{Schema: schema, Run: randomName(), Reason: "the driver container does not wait for the modules any more"})
	return nil, err
}

// explain adds what to do.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w; %s is full: raise the sizeLimit of the emptyDir, or free the node's disk", err, dir)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; %s has to be writable in both containers", err, dir)
	}
	return err
}

// ask prepares the folder. The earlier request goes first, so that the toolkit container does not raise its
// flags again. The flag that lets the toolkit container start is the last thing that is written.
func (f folder) ask(ctx context.Context, o Options, j Job) (run string, err error) {
	run = randomName()
	if err := errors.Join(f.sweep(), f.lower(requestFile, prepared, started, built, broken, answerFile)); err != nil {
		return "", err
	}
	if err := f.putProgram(o.Program); err != nil {
		return "", err
	}
	image := o.Image
	if image == "" {
		image = "/"
	}
	if err := f.putDriver(ctx, image, j.Info, j.Flavour, j.Companions); err != nil {
		return "", err
	}
	r := request{Schema: schema, Run: run, Compile: true, Kernel: j.Kernel, Driver: j.Info.Driver, Flavour: j.Flavour,
		Modules: j.Modules, Optional: j.Optional, RDMA: j.RDMA, MaxThreads: j.MaxThreads}
	for _, c := range j.Companions {
		r.Companions = append(r.Companions, c.Name)
	}
	if err := put(f, requestFile, r); err != nil {
		return "", err
	}
	return run, f.raise(prepared, run)
}

// await waits for the answer that the set of a run is there. The toolkit container has to begin within the
// timeout, and to end within the deadline of a compile: if it dies, the kubelet starts it again, and it begins again.
func (f folder) await(ctx context.Context, o Options, j Job, run string) (answer, error) {
	waits := func(reason string) {
		o.Log.Info(reason) //nolint:sloglint // the sentence is also in the status
		if j.Waits != nil {
			j.Waits(reason)
		}
	}
	waits("waiting for the Driver Toolkit container to start")
	began, limit := false, time.Now().Add(o.Timeout)
	for {
		a, err := f.answerTo(run)
		switch {
		case err != nil:
			return answer{}, err
		case a.State == stateBuilt:
			return a, nil
		case a.State == stateFailed:
			return answer{}, errors.New(a.Reason)
		case a.State == stateCompiler:
			return answer{}, a.Failure.compileError(f.dir, j)
		case !began && f.raised(started, run):
			began, limit = true, time.Now().Add(buildDeadline)
			waits(fmt.Sprintf("waiting for the Driver Toolkit container, which compiles the modules of driver %s for kernel %s", j.Info.Driver, j.Kernel))
		}
		if time.Now().After(limit) {
			if began {
				return answer{}, fmt.Errorf("it compiles for longer than %s; see the log of openshift-driver-toolkit-ctr, and whether its memory limit ended it", buildDeadline)
			}
			return answer{}, fmt.Errorf("it did not begin within %s; see whether openshift-driver-toolkit-ctr runs in this pod and could pull its image", o.Timeout)
		}
		select {
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		case <-time.After(o.Poll):
		}
	}
}

// answerTo returns the answer to a run; it is zero while there is none.
func (f folder) answerTo(run string) (answer, error) {
	data, err := f.read(answerFile, maxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return answer{}, nil
	}
	if err != nil {
		return answer{}, fmt.Errorf("its answer is refused: %w", err)
	}
	a, err := parseAnswer(data)
	if err != nil {
		return answer{}, fmt.Errorf("its answer, %s, is refused: %w", answerFile, err)
	}
	if a.Run != run {
		return answer{}, nil // to an earlier driver container
	}
	return a, nil
}
