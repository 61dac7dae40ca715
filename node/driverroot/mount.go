package driverroot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// foreign returns an error if Target is something on which no root can be mounted. It is never
// followed: a link to / would lead to the mounts of the whole node.
func (r *Root) foreign() error {
	st, err := os.Lstat(r.Target)
	if err != nil || st.IsDir() {
		return nil //nolint:nilerr // what is not there is in nobody's way
	}
	return fmt.Errorf(
		"%s is no folder of a driver container; remove it on the node: rm %[1]s",
		r.Target,
	)
}

// Mounted returns the number of layers at Target itself.
func (r *Root) Mounted() (layers int, err error) {
	mounts, err := r.mounts()
	_, layers = baseOf(mounts, r.Target)
	return layers, err
}

// mounts returns the mounts at and below Target; a mount always comes after those that it covers.
func (r *Root) mounts() ([]mounttable.Mount, error) {
	if r.foreign() != nil {
		return nil, nil //nolint:nilerr // preflight says what is in the way
	}
	mounts, err := mounttable.Below(r.Target)
	if err != nil {
		return nil, fmt.Errorf("look for mounts at %s: %w", r.Target, err)
	}
	return mounts, nil
}

// submounts lists our folders that are mounted in the root: procfs, the daemons' sockets, and our
// /sys and /dev, as in the root of NVIDIA's container. Programs in the root need the device files
// (chroot to the root, nvidia-smi), so does libnvidia-container, which changes its root, and
// nvidia-container-runtime, which looks for them below the root only (its configuration has one
// path for both, nvidia-container-cli.root). Consumers that find dev in the root expect sys as
// well, so sys comes first.
//
// Each submount shows one file system only: the mounts in our /dev (the pod's termination log, shm)
// would keep resources of the pod in use as long as the root is there. If our /dev is the host's,
// the submount shows the host's devtmpfs and outlives the container.
func submounts() []string { return slices.Concat([]string{"proc"}, runDirs, []string{"sys", "dev"}) }

// Mount mounts a root with its submounts at Target: dir is a staged root, of whichever driver, or
// "" for the image itself. It prepares everything at a private place, so that the root appears at
// once, here and for every process that shares the folder; a failure leaves nothing. If something
// is mounted there already it is an error.
func (r *Root) Mount(ctx context.Context, dir string) error {
	if dir != "" && filepath.Dir(dir) != filepath.Join(r.Storage, rootsDir) {
		return fmt.Errorf(
			"mount the driver root: %s is no root that was staged in %s",
			dir,
			r.Storage,
		)
	}
	err := r.mount(ctx, cmp.Or(dir, r.Image))
	if err != nil {
		return fmt.Errorf("mount the driver root: %w", err)
	}
	return nil
}

func (r *Root) mount(ctx context.Context, dir string) error {
	if err := r.foreign(); err != nil {
		return err
	}
	mounts, err := r.mounts()
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf(
			"%s has %d mount(s) already, the first from %s: unmount or adopt them first",
			r.Target,
			len(mounts),
			mounts[0].Source,
		)
	}
	if err := os.MkdirAll(r.Target, 0o755); err != nil {
		return err
	}
	target, err := mounttable.RealPath(r.Target)
	if err != nil {
		return err
	}
	parent, err := mounttable.Containing(target)
	if err != nil {
		return err
	}
	err = withScratch(dir, func(scratch string) error {
		err := r.furnish(ctx, scratch)
		if err != nil {
			return err
		}
		return bind(scratch, target, unix.MS_REC)
	})
	if err != nil {
		return err
	}
	r.warnUnlessShared(parent)
	return nil
}

// warnUnlessShared warns that only this container sees the root in this mount.
func (r *Root) warnUnlessShared(m mounttable.Mount) {
	if !m.Shared {
		r.Log.Warn(
			"nobody else sees the driver root: it lies in a mount that is not shared; mount the host's /run/nvidia with mountPropagation: Bidirectional",
			"path",
			r.Target,
			"mount",
			m.Point,
		)
	}
}

// furnish mounts the submounts into a bare bind of a root.
func (r *Root) furnish(ctx context.Context, base string) error {
	err := r.makeRunDirs()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	err = r.prepare(root)
	if err != nil {
		return err
	}
	for _, sub := range submounts() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := bindPrivate(filepath.Join(r.Image, sub), filepath.Join(base, sub))
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare makes in a root what Mount needs: the link to the firmware, and mount points. Of a staged
// root Stage has made them: its storage may be read-only now.
func (r *Root) prepare(root *os.Root) error {
	err := serveFirmware(root, r.Version)
	if err != nil {
		return err
	}
	for _, sub := range submounts() {
		err := ownFolder(root, sub)
		if err != nil {
			return err
		}
	}
	return nil
}

// ownFolder creates a folder in the root. It refuses links in the path, which would lead the mount
// to another place.
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

// bindPrivate binds one file system without the mounts in it, and keeps later mounts in it from
// propagating.
func bindPrivate(from, to string) error {
	err := bind(from, to, 0)
	if err != nil {
		return err
	}
	return makePrivate(to)
}

// makePrivate keeps mounts in a mount from being seen elsewhere.
func makePrivate(point string) error {
	err := unix.Mount("", point, "", unix.MS_PRIVATE, "")
	if err != nil {
		return fmt.Errorf("make %s private: %w", point, err)
	}
	return nil
}

func bind(from, to string, flags uintptr) error {
	err := unix.Mount(from, to, "", unix.MS_BIND|flags, "")
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", from, to, err)
	}
	return nil
}

// withScratch calls f with a private folder at which from is bound, and unmounts everything there
// afterwards. A direct bind from a shared mount to a shared place would be a peer of its source:
// every submount would appear at the source as well.
func withScratch(from string, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "driver-root-")
	if err != nil {
		return err
	}
	dir, err = mounttable.RealPath(dir)
	if err != nil {
		return err
	}
	defer func() {
		// The place is private, so detaching everything at once affects no other process.
		for unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH) == nil {
			continue
		}
		err = errors.Join(err, os.Remove(dir))
	}()
	err = bindPrivate(from, dir)
	if err != nil {
		return err
	}
	return f(dir)
}
