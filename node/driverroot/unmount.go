package driverroot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

const (
	busyFor   = 2 * time.Second
	busyPause = 50 * time.Millisecond
	maxMounts = 10000 // limit for a loop that makes no progress
)

// Unmount unmounts everything at and below Target, the newest mount first and one at a time, until mountinfo
// shows none, however many layers killed predecessors left. It tries a mount in use for 2 seconds and then
// detaches it: new lookups of the path do not find it any more, while processes inside keep it. lazy lists
// the mount points of detached mounts. The empty folder stays for consumers that mounted it.
func (r Root) Unmount(ctx context.Context) (lazy []string, err error) {
	if r.foreign() != nil {
		return nil, nil //nolint:nilerr // preflight says what is in the way
	}
	return r.unmountBelow(ctx, r.Target)
}

func (r Root) unmountBelow(ctx context.Context, dir string) (lazy []string, err error) {
	dir, err = mounttable.RealPath(dir)
	if err != nil {
		return nil, fmt.Errorf("unmount: %w", err)
	}
	for range maxMounts {
		mounts, err := mounttable.Read(func(point string) bool { return mounttable.AtOrBelow(point, dir) })
		if err != nil {
			return lazy, fmt.Errorf("unmount %s: %w", dir, err)
		}
		m, ok := mounttable.VisibleLeaf(mounts, dir)
		if !ok {
			return lazy, nil
		}
		detached, err := r.unmountOne(ctx, m)
		if err != nil {
			return lazy, fmt.Errorf("unmount %s (%s): %w", m.Point, m.Source, err)
		}
		if detached {
			lazy = append(lazy, m.Point)
		}
	}
	return lazy, fmt.Errorf("unmount %s: there is no end of mounts after %d: who mounts there?", dir, maxMounts)
}

func (r Root) unmountOne(ctx context.Context, m mounttable.Mount) (detached bool, err error) {
	deadline := time.Now().Add(busyFor)
	for {
		err := unix.Unmount(m.Point, unix.UMOUNT_NOFOLLOW)
		if !errors.Is(err, unix.EBUSY) {
			return false, err
		}
		if time.Now().After(deadline) {
			r.Log.Warn("a mount is still in use: it is detached, and who uses it keeps it", "path", m.Point, "duration", busyFor, "users", m.Users("/proc"))
			return true, unix.Unmount(m.Point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("stopped waiting for it to be free: %w", context.Cause(ctx))
		case <-time.After(busyPause):
		}
	}
}
