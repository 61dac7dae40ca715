package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/driverroot"
)

const keepRoots = 3 // staged roots to keep: this driver, the one before, and one more

// mountedRoot is the real driver root.
type mountedRoot struct {
	root    driverroot.Root
	staged  driverroot.Staged
	release string
	say     func(string, ...any)
}

func newMountedRoot(cfg Config, info driverinfo.Info, say func(string, ...any)) (*mountedRoot, error) {
	hostDev, err := devices.HostDev("/proc")
	if err != nil {
		return nil, err
	}
	storage := ""
	if yes, err := mounted(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("is %s storage of the host: %w", cfg.StateDir, err)
	} else if yes {
		storage = cfg.StateDir
	}
	release, err := kernelRelease()
	return &mountedRoot{say: say, release: release, root: driverroot.Root{
		Target: cfg.rootPath(), Image: "/", Storage: storage, ID: info.ID, Version: info.Driver, HostDev: hostDev, Say: say,
	}}, err
}

// Stage copies the image's root where the host has storage for it.
func (m *mountedRoot) Stage(ctx context.Context) (string, error) {
	staged, err := m.root.Stage(ctx)
	if err != nil {
		return "", err
	}
	m.staged = staged
	if m.root.Storage == "" {
		m.say("%s", "no storage of the host is mounted: the root of this container is served, and ends with it")
		return "", nil
	}
	return staged.Dir, nil
}

// AddModules makes modprobe inside of the root find the modules.
func (m *mountedRoot) AddModules(ctx context.Context, files []kbuild.File) error {
	list := make([]driverroot.Module, 0, len(files))
	for _, f := range files {
		list = append(list, driverroot.Module{Path: f.Path, SHA256: f.SHA256})
	}
	return m.staged.AddModules(ctx, m.release, list)
}

func (m *mountedRoot) Mount(ctx context.Context) error { return m.mount(ctx, m.staged) }

func (m *mountedRoot) mount(ctx context.Context, s driverroot.Staged) error {
	if err := s.Root.RunDirs(); err != nil { // before the daemons: they would make and remove their own
		return err
	}
	return m.shared(s.Mount(ctx))
}

// shared turns the warning that nobody else sees the root into a line of the log.
func (m *mountedRoot) shared(err error) error {
	var private *driverroot.NotSharedError
	if errors.As(err, &private) {
		m.say("warning: %v", private)
		return nil
	}
	return err
}

// MountOld serves what was staged for another driver.
func (m *mountedRoot) MountOld(ctx context.Context, dir string) error {
	if dir == "" || m.root.Storage == "" || filepath.Dir(dir) != filepath.Dir(m.staged.Dir) {
		return errors.New("its root went away with its container, or was not staged here")
	}
	return m.mount(ctx, driverroot.Staged{Root: m.root, Dir: dir})
}

func (m *mountedRoot) Unmount(ctx context.Context) error {
	lazy, err := m.root.Unmount(ctx)
	for _, point := range lazy {
		m.say("warning: %s was in use by a process in this container and is detached", point)
	}
	return err
}

// Mounted counts the layers at the target itself.
func (m *mountedRoot) Mounted() (int, error) {
	mounts, err := m.root.Mounts()
	if err != nil {
		return 0, err
	}
	target, err := filepath.EvalSymlinks(m.root.Target)
	if err != nil {
		target = m.root.Target
	}
	return len(slices.DeleteFunc(mounts, func(mt driverroot.Mount) bool { return mt.Point != target })), nil
}

func (m *mountedRoot) Adopt(ctx context.Context) (bool, string) {
	ok, note := m.root.Adoptable()
	if !ok {
		return false, note
	}
	if note != "" {
		m.say("the driver root stays: %s", note)
	}
	if err := m.shared(m.root.Refresh(ctx)); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// Firmware points the kernel at the root's firmware.
func (m *mountedRoot) Firmware() (func() error, error) {
	return driverroot.SetFirmwarePath("/sys", m.root.Target)
}

// Prune waits until the root is on the disk, and removes old ones. That takes seconds each, so it waits until the driver serves.
func (m *mountedRoot) Prune(ctx context.Context) error {
	if m.root.Storage == "" {
		return nil
	}
	if err := m.root.Settle(ctx); err != nil && ctx.Err() == nil { // else it stops, and the next start does it
		m.say("warning: %v", err)
	}
	return m.root.Prune(keepRoots)
}
