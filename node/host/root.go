package host

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/mounttable"
	"github.com/driver-container/driver-container/node/status"
)

const keepRoots = 2 // number of staged roots to keep beside this driver's: the one before, and one more

// roots is the driver root of this machine.
type roots struct {
	root    driverroot.Root
	staged  driverroot.Staged
	release string
	log     *slog.Logger
}

// newRoots returns a root that stages on the host's storage if StateDir is on it.
func newRoots(cfg config.Config, info driverinfo.Description, release string, onHost bool, log *slog.Logger) *roots {
	storage := ""
	if onHost {
		storage = cfg.StateDir
	}
	return &roots{log: log, release: release, root: driverroot.Root{
		Target: status.RootPath(cfg.Run), Image: "/", Storage: storage, ID: info.ID, Version: info.Driver, Log: log,
	}}
}

// Stage copies the image's root if the host has storage for it.
func (s *roots) Stage(ctx context.Context) (string, error) {
	staged, err := s.root.Stage(ctx)
	if err != nil {
		return "", err
	}
	s.staged = staged
	if s.root.Storage == "" {
		s.log.Info("no storage of the host is mounted: the root of this container is served, and ends with it")
		return "", nil
	}
	return staged.Dir, nil
}

// AddModules makes modprobe inside of the root find the modules.
func (s *roots) AddModules(ctx context.Context, files []kbuild.File) error {
	list := make([]driverroot.Module, 0, len(files))
	for _, f := range files {
		list = append(list, driverroot.Module{Path: f.Path, SHA256: f.SHA256})
	}
	return s.staged.AddModules(ctx, s.release, list)
}

// Mounted returns the number of layers at the target itself.
func (s *roots) Mounted() (int, error) {
	mounts, err := s.root.Mounts()
	if err != nil {
		return 0, err
	}
	target, err := filepath.EvalSymlinks(s.root.Target)
	if err != nil {
		target = s.root.Target
	}
	return len(slices.DeleteFunc(mounts, func(mt mounttable.Mount) bool { return mt.Point != target })), nil
}

// Mount serves the root.
func (s *roots) Mount(ctx context.Context) error { return s.mount(ctx, s.staged) }

func (s *roots) mount(ctx context.Context, staged driverroot.Staged) error {
	if err := staged.Root.RunDirs(); err != nil { // before the daemons start, which would create and remove these folders
		return err
	}
	return s.shared(staged.Mount(ctx))
}

// shared logs the warning that no other container sees the root, and returns every other error.
func (s *roots) shared(err error) error {
	if private, ok := errors.AsType[*driverroot.NotSharedError](err); ok {
		s.log.Warn("nobody else sees the driver root", "error", private)
		return nil
	}
	return err
}

// MountOld serves the staged root of another driver.
func (s *roots) MountOld(ctx context.Context, dir string) error {
	if dir == "" || s.root.Storage == "" || filepath.Dir(dir) != filepath.Dir(s.staged.Dir) {
		return errors.New("its root went away with its container, or was not staged here")
	}
	return s.mount(ctx, driverroot.Staged{Root: s.root, Dir: dir})
}

// Unmount removes every layer, also those of others.
func (s *roots) Unmount(ctx context.Context) error {
	_, err := s.root.Unmount(ctx)
	return err
}

// Adopt keeps the root that a predecessor mounted, if it is of our driver.
func (s *roots) Adopt(ctx context.Context) (bool, string) {
	ok, note := s.root.Adoptable()
	if !ok {
		return false, note
	}
	if note != "" {
		s.log.Info("the driver root stays", "reason", note)
	}
	if err := s.shared(s.root.Refresh(ctx)); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// Firmware makes the kernel search for firmware in the root.
func (s *roots) Firmware() (func() error, error) {
	return driverroot.SetFirmwarePath("/sys", s.root.Target)
}

// Prune waits until the root is written to the disk, and removes old roots. Each takes seconds, so Prune is
// called after the driver serves.
func (s *roots) Prune(ctx context.Context) error {
	if s.root.Storage == "" {
		return nil
	}
	if err := s.root.Settle(ctx); err != nil && ctx.Err() == nil { // otherwise it stops, and the next start does it
		s.log.Warn("the driver root is not on the disk yet", "error", err)
	}
	return s.root.Prune(keepRoots)
}
