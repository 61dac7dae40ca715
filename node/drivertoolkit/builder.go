package drivertoolkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/modules"
)

// Builder compiles in the toolkit container.
type Builder struct {
	Dir string // the shared folder
	Log *slog.Logger

	Root    string // of the toolkit: "/"
	Path    string // search path of programs; "": PATH
	Scratch string // "/var/tmp/nvidia-driver", as in an image: equal paths give equal modules
}

// Run serves requests until ctx ends, and returns nil then. Errors: the folder cannot be used, or
// its program is another version (the container has to be started again).
func (b Builder) Run(ctx context.Context) error {
	f, err := openFolder(b.Dir)
	if err != nil {
		return err
	}
	defer f.root.Close()
	for done, logged := "", ""; ctx.Err() == nil; daemons.Sleep(ctx, poll) {
		var r request
		err := f.receive(requestFile, &r)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("it looks for modules of the image and of the cache first")
		}
		switch {
		case errors.Is(err, errSchema):
			return fmt.Errorf(
				"read the request of the driver container: %w: this container starts again with that one",
				err,
			)
		case err != nil && err.Error() != logged:
			logged = err.Error()
			b.Log.Info("waiting for a request of the driver container", "error", err)
		case err == nil && r.Run != done:
			done = r.Run
			b.serve(ctx, f, r)
		}
	}
	return nil
}

// serve answers one request.
func (b Builder) serve(ctx context.Context, f folder, r request) {
	limited, cancel := context.WithTimeoutCause(
		ctx,
		buildDeadline,
		fmt.Errorf("it took longer than %s", buildDeadline),
	)
	defer cancel()
	set, err := b.compile(limited, f, r)
	if ctx.Err() != nil { // a signal: nothing is replied, the next container begins again
		return
	}
	if err != nil {
		b.Log.Error("no modules", "error", err)
		b.reply(f, b.refusal(r, err))
		return
	}
	b.Log.Info("the modules are ready for the driver container", "path", set.Dir)
	b.reply(f, answer{Run: r.Run, Set: filepath.Base(set.Dir)})
}

// refusal is the answer to a request that failed.
func (b Builder) refusal(r request, err error) answer {
	failed, ok := errors.AsType[*kbuild.CompileError](err)
	if !ok {
		return answer{Run: r.Run, Reason: explain(err, b.Dir).Error()}
	}
	return answer{
		Run:     r.Run,
		Reason:  failed.Err.Error(),
		Full:    errors.Is(failed.Err, unix.ENOSPC),
		Failure: failed,
	}
}

// reply answers. If the driver container has another request by now, or none, it ignores that, and
// what was compiled waits in the folder for its next one.
func (b Builder) reply(f folder, a answer) {
	a.Schema = schema
	if err := f.put(answerFile, a); err != nil { // the driver container finds out by its deadline
		b.Log.Error("the driver container cannot be told", "error", explain(err, b.Dir))
	}
}

// keepSets is how many sets stay in the folder: with and without a companion that was asked for
// later.
const keepSets = 2

// compile returns the set of a request: one that is in the folder, or a new one of the sources in
// the folder, with headers and compiler of this container.
func (b Builder) compile(ctx context.Context, f folder, r request) (*kbuild.Set, error) {
	r.Image = filepath.Join(b.Dir, driverDir)
	r.Path = b.Path
	r.Work = b.Scratch
	r.Log = filepath.Join(b.Dir, logFile)
	h, err := buildtree.Find(r.Kernel, []buildtree.Root{{Dir: b.Root, Name: "Driver Toolkit"}})
	if err != nil {
		return nil, b.otherKernel(r.Kernel, err)
	}
	if len(r.RDMA) > 0 {
		arch, _ := distros.LookupArch(r.Info.Arch)
		if name, err := modules.OFED(b.Root, arch.Kernel, r.Kernel); err != nil ||
			name != r.RDMA[0] {
			const text = "it sees the RDMA driver %q, the driver container %q: mount /run/mellanox/drivers/usr/src in both"
			return nil, errors.Join(fmt.Errorf(text, name, r.RDMA[0]), err)
		}
	}
	id, err := kbuild.KernelID(r.Kernel, h, "", "")
	if err != nil {
		return nil, err
	}
	job, err := r.Job(ctx, id, h, b.Log)
	if err != nil {
		return nil, err
	}
	cache := kbuild.Cache{Dir: filepath.Join(b.Dir, modulesDir)}
	if set, err := cache.Get(ctx, job.Key()); err == nil {
		b.Log.Info("the modules are there already", "path", set.Dir)
		return set, nil
	}
	b.reply(f, answer{Run: r.Run})
	set, err := job.Compile(ctx, b.Log)
	if err != nil {
		return nil, err
	}
	kept, err := cache.Put(ctx, set)
	if err != nil {
		return nil, err
	}
	return kept, errors.Join(cache.Prune(keepSets), os.RemoveAll(b.Scratch))
}

// otherKernel says which kernels the toolkit is for, if it is for others.
func (b Builder) otherKernel(release string, err error) error {
	has, _ := filepath.Glob(filepath.Join(b.Root, "usr/src/kernels/*")) //nolint:errcheck // the pattern is good
	if len(has) == 0 {
		return fmt.Errorf("the toolkit has headers of no kernel; the node runs %s: %w", release, err)
	}
	for i := range has {
		has[i] = filepath.Base(has[i])
	}
	return fmt.Errorf("the toolkit is for kernel %s, the node runs %s; is the node being upgraded, or its label "+
		"feature.node.kubernetes.io/system-os_release.OSTREE_VERSION stale? (%w)", strings.Join(has, ", "), release, err)
}
