package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/mounttable"
	"github.com/driver-container/driver-container/node/status"
)

const keepRoots = 3 // number of staged roots to keep: this driver, the one before, and one more

// stagedRoot is the common part of the two kinds of driver root, mountedRoot and linkedRoot.
type stagedRoot struct {
	root    driverroot.Root
	staged  driverroot.Staged
	release string
	log     *slog.Logger
}

// newRoots returns the kind of driver root that is configured.
func newRoots(cfg config.Config, info driverinfo.Description, release string, onHost bool, log *slog.Logger) (node.Roots, error) {
	s, err := newStagedRoot(cfg, info, release, onHost, log)
	if err != nil {
		return nil, err
	}
	if cfg.RootKind != config.RootLink {
		return &mountedRoot{s}, nil
	}
	if err := s.linkable(rootOfInit); err != nil {
		return nil, fmt.Errorf("%w: --driver-root=link (DRIVER_ROOT_KIND): %w", config.ErrConfig, err)
	}
	s.root.NoMounts = true
	return &linkedRoot{s}, nil
}

// newStagedRoot returns a root that stages on the host's storage if StateDir is on it.
func newStagedRoot(cfg config.Config, info driverinfo.Description, release string, onHost bool, log *slog.Logger) (*stagedRoot, error) {
	hostDev, err := devices.HostDev("/proc")
	if err != nil {
		return nil, err
	}
	storage := ""
	if onHost {
		storage = cfg.StateDir
	}
	return &stagedRoot{log: log, release: release, root: driverroot.Root{
		Target: status.RootPath(cfg.Run), Image: "/", Storage: storage, ID: info.ID, Version: info.Driver, HostDev: hostDev, Log: log,
	}}, nil
}

// Stage copies the image's root if the host has storage for it.
func (s *stagedRoot) Stage(ctx context.Context) (string, error) {
	staged, err := s.root.Stage(ctx)
	if err != nil {
		return "", err
	}
	s.staged = staged
	if b, err := readBaked(s.root.Storage); err == nil && !staged.Reused && b.Complete && b.ID == s.root.ID {
		s.log.Warn("the baked driver root was missing or damaged", "path", staged.Dir)
	}
	if s.root.Storage == "" {
		s.log.Info("no storage of the host is mounted: the root of this container is served, and ends with it")
		return "", nil
	}
	return staged.Dir, nil
}

// AddModules makes modprobe inside of the root find the modules.
func (s *stagedRoot) AddModules(ctx context.Context, files []kbuild.File) error {
	list := make([]driverroot.Module, 0, len(files))
	for _, f := range files {
		list = append(list, driverroot.Module{Path: f.Path, SHA256: f.SHA256})
	}
	return s.staged.AddModules(ctx, s.release, list)
}

// old returns the staged root of another driver.
func (s *stagedRoot) old(dir string) (driverroot.Staged, error) {
	if dir == "" || s.root.Storage == "" || filepath.Dir(dir) != filepath.Dir(s.staged.Dir) {
		return driverroot.Staged{}, errors.New("its root went away with its container, or was not staged here")
	}
	return driverroot.Staged{Root: s.root, Dir: dir}, nil
}

// Mounted returns the number of layers at the target itself; a link to a staged root counts as one.
func (s *stagedRoot) Mounted() (int, error) {
	mounts, err := s.root.Mounts()
	if err != nil {
		return 0, err
	}
	target, err := filepath.EvalSymlinks(s.root.Target)
	if err != nil {
		target = s.root.Target
	}
	layers := len(slices.DeleteFunc(mounts, func(mt mounttable.Mount) bool { return mt.Point != target }))
	if linked, err := s.root.Linked(); err != nil {
		return 0, err
	} else if linked != "" {
		layers++
	}
	return layers, nil
}

// Firmware makes the kernel search for firmware in the root.
func (s *stagedRoot) Firmware() (func() error, error) {
	return driverroot.SetFirmwarePath("/sys", s.root.Target)
}

// Prune waits until the root is written to the disk, and removes old roots. Each takes seconds, so Prune is
// called after the driver serves.
func (s *stagedRoot) Prune(ctx context.Context) error {
	if s.root.Storage == "" {
		return nil
	}
	if err := s.root.Settle(ctx); err != nil && ctx.Err() == nil { // otherwise it stops, and the next start does it
		s.log.Warn("the driver root is not on the disk yet", "error", err)
	}
	return s.root.Prune(keepRoots)
}
