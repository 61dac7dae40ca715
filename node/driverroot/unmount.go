package driverroot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

const (
	busyFor   = 2 * time.Second
	busyPause = 50 * time.Millisecond
	maxMounts = 10000 // limit for a loop that makes no progress
)

// Unmount unmounts everything at and below Target, one at a time, until mountinfo shows none,
// however many layers killed predecessors left. It tries a mount in use for 2 seconds and then
// detaches it: new lookups of the path do not find it any more, while processes inside keep it. The
// empty folder stays for consumers that mounted it.
func (r *Root) Unmount(ctx context.Context) error {
	if r.foreign() != nil {
		return nil //nolint:nilerr // preflight says what is in the way
	}
	return r.unmountBelow(ctx, r.Target)
}

func (r *Root) unmountBelow(ctx context.Context, dir string) error {
	for range maxMounts {
		mounts, err := mounttable.Below(dir)
		if err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		if len(mounts) == 0 {
			return nil
		}
		err = r.unmountOne(ctx, mounts)
		if err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
	}
	return fmt.Errorf(
		"unmount %s: there is no end of mounts after %d: who mounts there?",
		dir,
		maxMounts,
	)
}

// unmountOne unmounts the one with the longest path that is a mount point now: the path of a
// covered mount leads into another mount, until those that cover it are gone.
func (r *Root) unmountOne(ctx context.Context, mounts []mounttable.Mount) (err error) {
	slices.SortStableFunc(
		mounts,
		func(a, b mounttable.Mount) int { return len(b.Point) - len(a.Point) },
	)
	for _, m := range mounts {
		err = r.unmountPoint(ctx, m.Point)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) &&
			!errors.Is(err, unix.ENOTDIR) {
			break
		}
	}
	return err
}

func (r *Root) unmountPoint(ctx context.Context, point string) error {
	deadline := time.Now().Add(busyFor)
	for {
		err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s: %w", point, err)
		case time.Now().After(deadline):
			r.Log.Warn(
				"a mount is still in use: it is detached, and who uses it keeps it",
				"path",
				point,
				"duration",
				busyFor,
			)
			return unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped waiting for %s to be free: %w", point, context.Cause(ctx))
		case <-time.After(busyPause):
		}
	}
}
