package host

import (
	"context"
	"errors"

	"github.com/driver-container/driver-container/node/driverroot"
)

// mountedRoot serves by a mount at the target.
type mountedRoot struct{ *stagedRoot }

func (m *mountedRoot) Mount(ctx context.Context) error { return m.mount(ctx, m.staged) }

func (m *mountedRoot) mount(ctx context.Context, s driverroot.Staged) error {
	if err := s.Root.RunDirs(); err != nil { // before the daemons start, which would create and remove these folders
		return err
	}
	return m.shared(s.Mount(ctx))
}

// shared logs the warning that no other container sees the root, and returns every other error.
func (m *mountedRoot) shared(err error) error {
	if private, ok := errors.AsType[*driverroot.NotSharedError](err); ok {
		m.log.Warn("nobody else sees the driver root", "error", private)
		return nil
	}
	return err
}

// MountOld serves the staged root of another driver.
func (m *mountedRoot) MountOld(ctx context.Context, dir string) error {
	old, err := m.old(dir)
	if err != nil {
		return err
	}
	return m.mount(ctx, old)
}

// Unmount also removes the link with which a container without privileges served its root.
func (m *mountedRoot) Unmount(ctx context.Context) error {
	if err := m.root.Unlink(); err != nil {
		return err
	}
	lazy, err := m.root.Unmount(ctx)
	for _, point := range lazy {
		m.log.Warn("a mount was in use by a process in this container and is detached", "path", point)
	}
	return err
}

func (m *mountedRoot) Adopt(ctx context.Context) (bool, string) {
	ok, note := m.root.Adoptable()
	if !ok {
		return false, note
	}
	if note != "" {
		m.log.Info("the driver root stays", "reason", note)
	}
	if err := m.shared(m.root.Refresh(ctx)); err != nil {
		return false, err.Error()
	}
	return true, ""
}
