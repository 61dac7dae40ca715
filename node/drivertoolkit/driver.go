package drivertoolkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/modules"
)

// buildDeadline bounds one compile.
const buildDeadline = time.Hour

// Options say where the driver container asks.
type Options struct {
	Dir     string        // the shared folder
	Timeout time.Duration // within which the toolkit container has to begin
	Log     *slog.Logger

	Program string        // "": this program
	Poll    time.Duration // 0: a second
}

// Job is one compile for the node's kernel.
type Job struct {
	modules.Request                       // Image is the root of the driver container; Work gets the result
	Kernel          string                // release
	Fits            func(kbuild.Key) bool // whether a set is what is wanted
	Waits           func(reason string)   // told what is waited for; may be nil
}

// UnavailableError says that the toolkit container gives no modules, for another reason than that the driver
// does not compile.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the Driver Toolkit container gives no modules: %v", e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Compile lets the toolkit container compile, and returns the set, which is in Job.Work. What that container has compiled before it
// does not compile again. Errors: ctx's cause, *kbuild.CompileError if the driver does not compile, else *UnavailableError.
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

func compile(ctx context.Context, o Options, j Job) (set *kbuild.Set, err error) {
	f, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer f.close()
	r := request{Compile: true, Kernel: j.Kernel, Driver: j.Info.Driver, Flavour: j.Flavour, Modules: j.Modules, Optional: j.Optional,
		Companions: j.Companions, RDMA: j.RDMA, MaxThreads: j.MaxThreads}
	run, err := f.announce(o, r, func() error { return f.putDriver(ctx, j) })
	if err != nil {
		return nil, explain(err, o.Dir)
	}
	a, err := f.await(ctx, o, j, run)
	if err == nil {
		if set, err = f.take(ctx, a.Set, j); err != nil {
			err = fmt.Errorf("its modules are refused: %w", err)
		}
	}
	if err != nil {
		err = errors.Join(err, f.lower(requestFile)) // what the toolkit container still compiles waits there for the next request
	}
	return set, err
}

// Invite lets the toolkit container start, which waits for dir_prepared, and tells it that there is nothing
// to compile yet, or never: reason says why. What an earlier driver container asked for is withdrawn.
// Compiled modules stay.
func Invite(o Options, reason string) error {
	f, err := openFolder(o.Dir)
	if err != nil {
		return err
	}
	defer f.close()
	_, err = f.announce(o, request{Reason: reason}, func() error { return f.lower(driverDir) })
	return err
}

// announce replaces what is asked for. The earlier request goes first, so that the toolkit container says nothing more about it. The
// flag that lets that container start is the last thing that is written.
func (f folder) announce(o Options, r request, fill func() error) (run string, err error) {
	r.Schema, r.Run = schema, randomName()
	for _, step := range []func() error{
		func() error { return f.lower(requestFile, prepared, started, built, broken, answerFile) },
		func() error { return f.putProgram(o.Program) }, fill,
		func() error { return put(f, requestFile, r) },
		func() error { return f.raise(prepared) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return r.Run, nil
}

// putProgram copies this program into the folder. A child that is forked meanwhile would have the copy open
// for writing, and the toolkit container could not start it (ETXTBSY).
func (f folder) putProgram(file string) error {
	in, err := os.Open(cmp.Or(file, "/proc/self/exe"))
	if err != nil {
		return err
	}
	defer in.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.write(Program, 0o755, in)
}

// putDriver copies what a compile needs of the image: driver.json, the sources of the flavour with their
// patches, and those of the companions. It replaces what was there.
func (f folder) putDriver(ctx context.Context, j Job) (err error) {
	const temp = driverDir + temporary
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy the driver's sources to %s: %w", f.dir, err), f.root.RemoveAll(temp))
		}
	}()
	text, err := j.Info.Encode()
	if err == nil {
		err = errors.Join(f.root.RemoveAll(temp), f.root.MkdirAll(path.Join(temp, path.Dir(driverinfo.Path)), 0o755))
	}
	if err == nil {
		err = f.write(path.Join(temp, driverinfo.Path), 0o644, strings.NewReader(string(text)))
	}
	folders := []string{modules.Sources(j.Info.Driver, j.Flavour)}
	for _, c := range modules.Companions(j.Info, j.Flavour, j.Companions) {
		folders = append(folders, c.Source)
	}
	for _, dir := range folders {
		if err != nil {
			return err
		}
		if err = f.root.MkdirAll(path.Join(temp, path.Dir(dir)), 0o755); err == nil {
			err = buildtree.CopyTree(ctx, filepath.Join(cmp.Or(j.Image, "/"), dir), f.root, path.Join(temp, dir))
		}
	}
	if err == nil {
		err = f.lower(driverDir)
	}
	if err == nil {
		err = f.root.Rename(temp, driverDir)
	}
	return err
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
		case !began && a.State == stateStarted:
			began, limit = true, time.Now().Add(buildDeadline)
			waits(fmt.Sprintf("waiting for the Driver Toolkit container, which compiles the modules of driver %s for kernel %s", j.Info.Driver, j.Kernel))
		}
		if time.Now().After(limit) {
			if began {
				return answer{}, fmt.Errorf("it compiles for longer than %s; see the log of openshift-driver-toolkit-ctr, and whether its memory limit ended it", buildDeadline)
			}
			return answer{}, fmt.Errorf("it did not begin within %s; see whether openshift-driver-toolkit-ctr runs in this pod and could pull its image", o.Timeout)
		}
		if sleep(ctx, cmp.Or(o.Poll, time.Second)); ctx.Err() != nil {
			return answer{}, context.Cause(ctx)
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
