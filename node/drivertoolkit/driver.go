// Package drivertoolkit lets a second container of the pod compile the driver's modules:
// OpenShift's Driver Toolkit, which has the headers and the compiler of the node's kernel and
// nothing of the driver. Both containers share a folder.
//
// The driver container asks (Invite, Compile): it puts its own program, the sources and a request
// into the folder, waits with a deadline, and takes the modules over as the entry of a cache that
// they are. The toolkit container answers (Builder). Each request has the name of a run, and
// answers to another run do not count, so that what earlier containers left does no harm. To the
// driver container the folder is untrusted input. To the toolkit container it is what the driver
// container wrote, and it runs a compile of it.
//
// The package decides nothing about a node, signs nothing and loads nothing.
package drivertoolkit

import (
	"cmp"
	"context"
	"crypto/rand"
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

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/modules"
)

const (
	buildDeadline = time.Hour   // of one compile
	poll          = time.Second // how often each container looks for what the other one wrote
)

// Job is one compile for the node's kernel.
type Job struct {
	// Image is the root of the driver container; Work gets the result
	modules.Request
	Kernel string                // release
	Fits   func(kbuild.Key) bool // whether a set is what is wanted

	Dir     string              // the shared folder
	Timeout time.Duration       // within which the toolkit container has to begin
	Waits   func(reason string) // told what is waited for
	Logger  *slog.Logger
}

// UnavailableError says that the toolkit container gives no modules, for another reason than that
// the driver does not compile.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the Driver Toolkit container gives no modules: %v", e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Compile lets the toolkit container compile, and returns the set, which is in Job.Work. What that
// container has compiled before it does not compile again. Errors: ctx's cause,
// *kbuild.CompileError if the driver does not compile, else *UnavailableError.
func (j Job) Compile(ctx context.Context) (*kbuild.Set, error) {
	set, err := j.compile(ctx)
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

func (j Job) compile(ctx context.Context) (set *kbuild.Set, err error) {
	if err := Invite(j.Dir); err != nil {
		return nil, err
	}
	f, err := openFolder(j.Dir)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	if err := f.putSources(ctx, j.Request); err != nil {
		return nil, explain(fmt.Errorf("copy the driver's sources to %s: %w", f.dir, err), j.Dir)
	}
	r := request{Schema: schema, Run: rand.Text(), Kernel: j.Kernel, Request: j.Request}
	if err := f.put(requestFile, r); err != nil {
		return nil, explain(err, j.Dir)
	}
	name, err := f.await(ctx, j, r.Run)
	if err == nil {
		set, err = f.take(name, j)
		if err != nil {
			err = fmt.Errorf("its modules are refused: %w", err)
		}
	}
	if err != nil {
		// what the toolkit container still compiles waits there for the next request
		err = errors.Join(err, f.root.RemoveAll(requestFile))
	}
	return set, err
}

// Invite lets the toolkit container start, which waits for dir_prepared. What an earlier driver
// container asked for is withdrawn. Compiled modules stay.
func Invite(dir string) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.root.Close()
	for _, name := range []string{requestFile, prepared, answerFile, driverDir} {
		err = errors.Join(err, f.root.RemoveAll(name))
	}
	if err != nil {
		return explain(err, dir)
	}
	err = f.putProgram()
	if err != nil {
		return explain(err, dir)
	}
	return explain(f.write(prepared, 0o644, strings.NewReader("")), dir)
}

// putProgram copies this program into the folder. A child that is forked meanwhile would have the
// copy open for writing, and the toolkit container could not start it (ETXTBSY).
func (f folder) putProgram() error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.write(Program, 0o755, in)
}

// putSources copies what a compile needs of the image: the sources of the flavour with their
// patches, and those of the companions.
func (f folder) putSources(ctx context.Context, r modules.Request) error {
	folders := []string{modules.Sources(r.Info.Driver, r.Flavour)}
	for _, c := range modules.Companions(r.Info, r.Flavour, r.Companions) {
		folders = append(folders, c.Source)
	}
	for _, dir := range folders {
		if err := f.root.MkdirAll(path.Join(driverDir, path.Dir(dir)), 0o755); err != nil {
			return err
		}
		if err := buildtree.CopyTree(ctx, filepath.Join(cmp.Or(r.Image, "/"), dir), f.root, path.Join(driverDir, dir)); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the set of a run is there, and returns its name. The toolkit container has to
// begin within the timeout, and to end within the deadline of a compile: if it dies, the kubelet
// starts it again, and it begins again.
func (f folder) await(ctx context.Context, j Job, run string) (set string, err error) {
	waits := func(reason string) {
		j.Logger.Info(reason) //nolint:sloglint // the sentence is also in the status
		j.Waits(reason)
	}
	waits("waiting for the Driver Toolkit container to start")
	began := false
	limit := time.Now().Add(j.Timeout)
	for {
		var a answer
		err := f.receive(answerFile, &a)
		if err == nil {
			err = a.check()
		}
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("its answer, %s, is refused: %w", answerFile, err)
		case err != nil || a.Run != run: // there is none, or it is to an earlier driver container
		case a.Set != "":
			return a.Set, nil
		case a.Failure != nil:
			return "", f.compileError(a, j)
		case a.Reason != "":
			return "", errors.New(a.Reason)
		case !began:
			began = true
			limit = time.Now().Add(buildDeadline)
			waits(
				fmt.Sprintf(
					"waiting for the Driver Toolkit container, which compiles the modules of driver %s for kernel %s",
					j.Info.Driver,
					j.Kernel,
				),
			)
		}
		if time.Now().After(limit) {
			if began {
				return "", fmt.Errorf(
					"it compiles for longer than %s; see the log of openshift-driver-toolkit-ctr, and whether its memory limit ended it",
					buildDeadline,
				)
			}
			return "", fmt.Errorf(
				"it did not begin within %s; see whether openshift-driver-toolkit-ctr runs in this pod and could pull its image",
				j.Timeout,
			)
		}
		if !daemons.Sleep(ctx, poll) {
			return "", context.Cause(ctx)
		}
	}
}

// compileError returns the error of the compile as if it had run here.
func (f folder) compileError(a answer, j Job) error {
	failed := a.Failure
	failed.Driver = j.Info.Driver
	failed.Release = j.Kernel
	failed.Log = filepath.Join(f.dir, logFile)
	failed.Err = errors.New(a.Reason + " (in the Driver Toolkit container)")
	if a.Full {
		failed.Err = fmt.Errorf("%w: %w", failed.Err, unix.ENOSPC)
	}
	return failed
}
