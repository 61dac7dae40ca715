package drivertoolkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/modulebuild"
)

// brokenError says that this container cannot compile for the kernel, whatever the driver is.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func isBroken(err error) bool { return errors.As(err, new(*brokenError)) }

// keepSets is how many sets stay in the folder: with and without a companion that was asked for later.
const keepSets = 2

// compile returns the set of a request: one that an earlier container left in the folder, or a new one.
func (b Builder) compile(ctx context.Context, f folder, r request) (*kbuild.Set, error) {
	for _, name := range b.Companions {
		if !slices.Contains(r.Companions, name) {
			b.Log.Warn("this container is to compile a module that the driver container does not ask for: set the variable for that container, too", "module", name)
		}
	}
	image := filepath.Join(b.Dir, driverDir)
	info, err := driverinfo.Read(os.DirFS(image))
	if err != nil {
		return nil, fmt.Errorf("read what the driver container put into %s: %w", b.Dir, err)
	}
	if info.Driver != r.Driver {
		return nil, fmt.Errorf("%s has the sources of driver %s, the request is for %s", b.Dir, info.Driver, r.Driver)
	}
	job, err := b.job(ctx, info, r)
	if err != nil {
		return nil, err
	}
	cache := kbuild.Cache{Dir: filepath.Join(b.Dir, modulesDir)}
	if set, err := cache.Get(ctx, job.Key()); err == nil {
		b.Log.Info("the modules are there already", "path", set.Dir)
		return set, nil
	}
	b.raise(f, started, r.Run)
	job.Progress = modulebuild.Progress(b.Log)
	b.Log.Info("compiling", "driver", r.Driver, "flavour", r.Flavour, "kernel", r.Kernel, "compiler", job.Compiler.Version, "jobs", job.Jobs, "path", job.Log)
	set, err := kbuild.Compile(ctx, job)
	if err != nil {
		modulebuild.LogOutput(b.Log, err)
		return nil, err
	}
	kept, err := cache.Put(ctx, set)
	if err != nil {
		return nil, err
	}
	return kept, errors.Join(cache.Prune(keepSets), os.RemoveAll(b.Scratch))
}

// job returns the description of the compile: the sources of the shared folder, headers and compiler of this
// container.
func (b Builder) job(ctx context.Context, info driverinfo.Description, r request) (kbuild.Job, error) {
	image := filepath.Join(b.Dir, driverDir)
	h, err := buildtree.Find(r.Kernel, []buildtree.Root{{Dir: b.Root, Name: "Driver Toolkit"}})
	if err != nil {
		return kbuild.Job{}, &brokenError{otherKernel(r.Kernel, kernels(b.Root), err)}
	}
	cc, err := kbuild.FindCompiler(ctx, h, b.Path)
	if err != nil {
		if ctx.Err() == nil {
			err = &brokenError{err}
		}
		return kbuild.Job{}, err
	}
	if cc.Mismatch {
		b.Log.Warn("the kernel was built with another compiler, this is the nearest there is", "wanted", cc.Wanted, "compiler", cc.Version, "path", cc.Path)
	}
	patches := info.PatchNames(r.Flavour)
	if r.RDMA != "" {
		arch, _ := distros.LookupArch(info.Arch)
		if name, err := modulebuild.OFED(b.Root, arch.Kernel, r.Kernel); err != nil || name != r.RDMA {
			return kbuild.Job{}, &brokenError{errors.Join(fmt.Errorf("it sees the RDMA driver %q, the driver container %q: mount /run/mellanox/drivers/usr/src in both", name, r.RDMA), err)}
		}
		patches = append(patches, r.RDMA)
	}
	id, err := kbuild.KernelID(r.Kernel, h, "", "")
	if err != nil {
		return kbuild.Job{}, err
	}
	if err := os.MkdirAll(b.Scratch, 0o700); err != nil {
		return kbuild.Job{}, fmt.Errorf("make the scratch folder: %w", err)
	}
	jobs, _ := kbuild.Jobs(r.MaxThreads, kbuild.Limits{})
	companions := modulebuild.Companions(info, r.Flavour, r.Companions)
	for i := range companions {
		companions[i].Source = filepath.Join(image, companions[i].Source)
	}
	return kbuild.Job{
		Source: filepath.Join(image, modulebuild.Sources(r.Driver, r.Flavour)), Driver: r.Driver, Flavour: r.Flavour, Patches: patches,
		Variables: driverinfo.MakeVariables(info.VGPU), Kernel: id, Headers: h, Compiler: cc, Jobs: jobs,
		Modules: append(slices.Clone(r.Modules), r.Optional...), Optional: r.Optional, Companions: companions,
		Work: b.Scratch, Log: filepath.Join(b.Dir, logFile),
	}, nil
}

// otherKernel says which kernels the toolkit is for, if it is for others.
func otherKernel(release string, has []string, err error) error {
	if len(has) == 0 {
		return fmt.Errorf("the toolkit has headers of no kernel; the node runs %s: %w", release, err)
	}
	return fmt.Errorf("the toolkit is for kernel %s, the node runs %s; is the node being upgraded, or its label "+
		"feature.node.kubernetes.io/system-os_release.OSTREE_VERSION stale? (%w)", strings.Join(has, ", "), release, err)
}

// kernels returns the releases of which a root has something, by the names of folders.
func kernels(root string) (releases []string) {
	for _, pattern := range []string{"lib/modules/*", "usr/lib/modules/*", "usr/src/kernels/*", "usr/src/linux-headers-*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			continue
		}
		for _, path := range found {
			name := strings.TrimPrefix(filepath.Base(path), "linux-headers-")
			if strings.HasSuffix(name, "-common") || !setName().MatchString(name) || slices.Contains(releases, name) || len(releases) == maxSets {
				continue
			}
			releases = append(releases, name)
		}
	}
	return releases
}
