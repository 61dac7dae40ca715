package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

// Bake fills a state folder on a machine that needs no GPU and is no node yet, so that a start on a
// node with this folder neither compiles nor copies.
type Bake struct {
	Config  config.Config // its StateDir is the folder to fill
	Kernels []string      // releases as uname -r prints them

	image   string // for tests; "": "/"
	modules func(ctx context.Context, release string) (*kbuild.Set, string, error)
}

// Run makes the modules for each kernel and the driver root, each under a temporary name until it
// is whole. It may run again with other kernels, or another image: what is there and fits stays.
// Errors: config.ErrConfig, lock.ErrHeld, *buildtree.NoHeadersError, *kbuild.CompileError, those of
// files (unix.ENOSPC).
func (b Bake) Run(ctx context.Context, log *slog.Logger) (Baked, error) {
	if b.image == "" {
		b.image = "/"
	}
	if len(b.Kernels) == 0 || len(b.Kernels) > keepSets {
		return Baked{}, fmt.Errorf(
			"%w: bake needs --kernel RELEASE, once for each kernel that the machines may boot, at most %d times",
			config.ErrConfig,
			keepSets,
		)
	}
	info, err := readInfo(b.image)
	if err != nil {
		return Baked{}, err
	}
	if t := b.Config.ModuleType; len(info.Flavours) > 1 && t != driverinfo.Open &&
		t != driverinfo.Proprietary {
		return Baked{}, fmt.Errorf(
			"%w: --kernel-module-type is %q; bake needs open or proprietary: there is no GPU to choose by",
			config.ErrConfig,
			t,
		)
	}
	unlock, err := b.lock()
	if err != nil {
		return Baked{}, err
	}
	defer unlock()
	index, err := readIndex(b.Config.StateDir)
	if err != nil {
		return Baked{}, fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	baked := Baked{Driver: info.Driver, OS: info.OS, Arch: info.Arch, VGPU: info.VGPU, ID: info.ID}
	err = b.fill(ctx, &baked, index, info, log)
	if err != nil {
		return Baked{}, fmt.Errorf("bake into %s: %w", b.Config.StateDir, err)
	}
	return baked, nil
}

// lock keeps other bakes and a driver container away from the folder: one program at a time may
// write a cache of modules.
func (b Bake) lock() (unlock func(), err error) {
	holder, held, err := lock.Held(b.Config.Run)
	if err != nil {
		return nil, err
	}
	if held {
		return nil, fmt.Errorf(
			"%w: a driver runs on this machine (%s), and may write the same folder: bake on another machine, or stop it",
			lock.ErrHeld,
			holder,
		)
	}
	if err := os.MkdirAll(b.Config.StateDir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: make the folder to bake into: %w", config.ErrConfig, err)
	}
	f, err := os.Open(b.Config.StateDir)
	if err != nil {
		return nil, fmt.Errorf("%w: open the folder to bake into: %w", config.ErrConfig, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf(
			"%w: another bake into %s runs: %w",
			lock.ErrHeld,
			b.Config.StateDir,
			err,
		)
	}
	return func() {
		// a child between fork and exec has the descriptor too
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		f.Close()
	}, nil
}

func (b Bake) fill(
	ctx context.Context,
	baked *Baked,
	index Index,
	info driverinfo.Description,
	log *slog.Logger,
) error {
	root := newRoot(b.Config, info, b.Kernels[0], true, log)
	root.Image = b.image
	root.NoMounts = !mayMount()
	if b.modules == nil {
		b.modules = func(ctx context.Context, release string) (*kbuild.Set, string, error) {
			return b.compile(ctx, info, release, log)
		}
	}
	sets := map[string]*kbuild.Set{}
	for _, release := range b.Kernels {
		set, source, err := b.modules(ctx, release)
		if err != nil {
			return fmt.Errorf("modules for kernel %s: %w", release, err)
		}
		if source != status.FromImage {
			source = status.FromCache
		}
		sets[release] = set
		baked.add(b.Config.StateDir, release, source, set)
		log.Info("modules", "kernel", release, "source", source, "path", set.Dir)
	}
	others := index.roots(b.Config.StateDir)
	dir, err := root.Stage(ctx, others)
	if err != nil {
		return err
	}
	baked.Root, err = filepath.Rel(b.Config.StateDir, dir)
	if err != nil {
		return err
	}
	for _, release := range b.Kernels {
		root.Release = release
		if err := root.AddModules(ctx, dir, sets[release].Modules); err != nil {
			return err
		}
	}
	saved, err := root.Share(ctx, dir, others)
	if err != nil {
		return err
	}
	log.Info("files shared with other baked drivers", "path", dir, "bytes", saved)
	err = root.Sync(ctx)
	if err != nil {
		return err
	}
	index, old := index.add(*baked)
	err = index.write(b.Config.StateDir)
	if err != nil || old == nil || old.Root == baked.Root {
		return err
	}
	log.Info("another image of this driver was baked before", "driver", old.Driver, "id", old.ID)
	return root.Remove(filepath.Join(b.Config.StateDir, old.Root))
}

// add adds a kernel.
func (b *Baked) add(dir, release, source string, set *kbuild.Set) {
	k := BakedKernel{
		Release: release,
		Flavour: set.Key.Flavour,
		Source:  source,
		Signer:  set.SignedBy(),
		Modules: map[string]string{},
	}
	if rel, err := filepath.Rel(dir, set.Dir); err == nil && filepath.IsLocal(rel) {
		k.Folder = rel
	}
	for _, f := range set.Modules {
		k.Modules[f.Name] = f.SHA256
	}
	b.Kernels = append(b.Kernels, k)
}

// compile returns the modules for a kernel: those of the image, those that the folder has, or new
// ones.
func (b Bake) compile(
	ctx context.Context,
	info driverinfo.Description,
	release string,
	log *slog.Logger,
) (*kbuild.Set, string, error) {
	cfg := b.Config
	m, err := machine(cfg, info, release, log)
	if err != nil {
		return nil, "", err
	}
	store, err := b.store(log)
	if err != nil {
		return nil, "", err
	}
	return node.New(cfg, m, node.Options{Log: log, Status: store}).Compile(ctx, release)
}

// store has the status of a driver that a container left on this machine: its modules stay.
func (b Bake) store(log *slog.Logger) (*status.Store, error) {
	boot, err := driverroot.BootID()
	return status.NewStore(status.Snapshot{BootID: boot}, status.Folder(b.Config.Run), log), err
}

// mayMount says whether this process has CAP_SYS_ADMIN. The build of an image (RUN) has not.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
