package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// submounts are the folders of ours that show in the root: procfs, the daemons' sockets, and our /dev and /sys unless a staged
// root tells consumers by their absence to use the host's. Each shows one file system only: what is mounted in our /dev (the
// pod's termination log, shm) would hold things of the pod for as long as the root is there.
func (r Root) submounts(staged bool) []string {
	subs := append([]string{"proc"}, runDirs...)
	if staged && r.HostDev {
		return subs
	}
	return append(subs, "dev", "sys")
}

// Mount puts the root at Target with all that belongs into it. It is built at a place of its own and appears at once, here and
// for everybody who shares the folder; a failure leaves nothing. If there is anything mounted already it refuses, see
// MountedError. A *NotSharedError comes after success, as a warning.
func (s Staged) Mount(ctx context.Context) error {
	r := s.Root
	mounts, err := r.Mounts()
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return &MountedError{r.Target, mounts}
	}
	if err := os.MkdirAll(r.Target, 0o755); err != nil {
		return fmt.Errorf("mount the driver root: %w", err)
	}
	target, err := realPath(r.Target)
	if err != nil {
		return fmt.Errorf("mount the driver root: %w", err)
	}
	parent, err := containing(target)
	if err != nil {
		return fmt.Errorf("mount the driver root: %w", err)
	}
	err = withScratch(func(scratch string) error {
		if err := bindPrivate(s.Dir, scratch); err != nil {
			return err
		}
		if err := r.furnish(ctx, scratch, r.Storage != ""); err != nil {
			return err
		}
		if err := unix.Mount(scratch, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s on %s: %w", s.Dir, target, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mount the driver root: %w", err)
	}
	if !parent.Shared {
		return &NotSharedError{target, parent.Point}
	}
	return nil
}

// furnish gives a bare bind of a root its submounts.
func (r Root) furnish(ctx context.Context, base string, staged bool) error {
	if err := r.RunDirs(); err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := serveFirmware(root, r.Version); err != nil {
		return err
	}
	if staged && r.HostDev {
		for _, dir := range []string{"dev", "sys"} {
			if err := root.RemoveAll(dir); err != nil { // nothing is mounted in base yet
				return fmt.Errorf("a root beside the host's /dev must not have %s: %w", dir, err)
			}
		}
	}
	for _, sub := range r.submounts(staged) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := ownFolder(root, sub); err != nil {
			return err
		}
		if err := bindPrivate(filepath.Join(r.Image, sub), filepath.Join(base, sub)); err != nil {
			return err
		}
	}
	return nil
}

// ownFolder makes a folder in the root. A link on the way is refused: mounting there would mount somewhere else.
func ownFolder(root *os.Root, name string) error {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if err := root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if st, err := root.Lstat(at); err != nil || !st.IsDir() {
			return fmt.Errorf("mount %s in the driver root: %s is not a folder there", name, at)
		}
	}
	return nil
}

// bindPrivate binds one file system, without what is mounted in it, and keeps later mounts in it from being seen elsewhere.
func bindPrivate(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s on %s: %w", from, to, err)
	}
	if err := unix.Mount("", to, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make %s private: %w", to, err)
	}
	return nil
}

// withScratch gives f an empty folder of its own to mount on and takes everything away that is there afterwards. A bind made
// directly from a shared mount to a shared place would be a peer of its source: every submount would show there as well.
func withScratch(f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "driver-root-")
	if err != nil {
		return err
	}
	if dir, err = realPath(dir); err != nil {
		return err
	}
	defer func() {
		// Nobody else knows the place, so detaching all of it at once takes nothing from anybody.
		for unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH) == nil {
			continue
		}
		err = errors.Join(err, os.Remove(dir))
	}()
	return f(dir)
}
