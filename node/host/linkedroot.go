package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
)

// linkedRoot serves by a link at the target: nothing is mounted, so the container need not be privileged.
type linkedRoot struct{ *stagedRoot }

// linkable returns an error that says what the pod lacks for a root that is served by a link. host is the
// path of the host's root.
func (s *stagedRoot) linkable(host string) error {
	dir := s.root.Storage
	switch {
	case dir == "":
		return errors.New("the driver root has to be on storage of the host: mount a folder of the host (hostPath) at --state-dir (DRIVER_STATE_DIR), at the same path as on the host")
	case !s.root.HostDev:
		return errors.New("device files have to be made in the host's /dev: mount it (hostPath) at /dev")
	}
	ours, err := os.Stat(dir)
	if err != nil {
		return err
	}
	theirs, err := os.Stat(host + dir)
	switch {
	case err == nil && os.SameFile(ours, theirs):
		return nil
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder that is mounted at %s is another one on the host: a link to it would lead nowhere; mount it at the same path as on the host, and set --state-dir (DRIVER_STATE_DIR) to that", dir)
	}
	s.log.Warn("the folder has to be the same one on the host, which cannot be checked", "path", dir, "error", err)
	return nil
}

// Mount makes the target a link to the root. The interface calls this mounting.
func (l *linkedRoot) Mount(ctx context.Context) error { return foreignMount(l.staged.Link(ctx)) }

// MountOld serves the staged root of another driver.
func (l *linkedRoot) MountOld(ctx context.Context, dir string) error {
	old, err := l.old(dir)
	if err != nil {
		return err
	}
	return foreignMount(old.Link(ctx))
}

// Unmount removes the link. It cannot remove a mount of a privileged container.
func (l *linkedRoot) Unmount(context.Context) error {
	mounts, err := l.root.Mounts()
	if err != nil {
		return err
	}
	if linked, err := l.root.Linked(); err != nil || linked == "" && len(mounts) > 0 {
		return errors.Join(err, foreignMount(&driverroot.MountedError{Target: l.root.Target, Mounts: mounts}))
	}
	return l.root.Unlink()
}

// foreignMount adds advice to the error about a mount.
func foreignMount(err error) error {
	var mounted *driverroot.MountedError
	if !errors.As(err, &mounted) {
		return err
	}
	return fmt.Errorf("%w: %s was mounted by a privileged container, and this one may not unmount it (--driver-root=link): stop that container while no GPU is in use, or run `umount -R %s` on the node: %w",
		config.ErrConfig, mounted.Target, mounted.Target, err)
}

// Adopt keeps the link that a predecessor left, if it leads to a root of our driver.
func (l *linkedRoot) Adopt(context.Context) (bool, string) {
	ok, note := l.root.AdoptableLink()
	if ok && note != "" {
		l.log.Info("the driver root stays", "reason", note)
		return true, ""
	}
	return ok, note
}
