package driverroot

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// hostFolders are the folders of a machine that a driver sees which is no container.
var hostFolders = []string{"/proc", "/sys", "/dev", "/run", "/drivers"}

// Enter makes a staged root the root of this process, as a runtime does with an image: programs and
// libraries are the root's, mounts are those of before, and what is written is in memory. The root
// itself stays as it is.
//
// In a container the whole container moves, so that a later exec in it finds the same root. On the
// machine itself, host, only this process moves, and its mounts end with it. The caller has to
// execute a program next: the goroutine keeps its thread. storage is the folder that has the root.
func Enter(dir, storage string, host bool) error {
	runtime.LockOSThread()
	err := enter(dir, storage, host)
	if err != nil {
		return fmt.Errorf("enter the driver root %s: %w", dir, err)
	}
	return nil
}

func enter(dir, storage string, host bool) error {
	mounts, err := ownMounts()
	if host {
		mounts = slices.DeleteFunc(append(hostFolders, storage), missing)
		err = unix.Unshare(unix.CLONE_NEWNS)
	}
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "driver-root-")
	if err != nil {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(scratch))
	if err != nil {
		return errors.Join(err, os.Remove(scratch))
	}
	defer parent.Close()
	err = change(dir, scratch, mounts)
	if err != nil {
		// the folder is private, so no other process sees the end of its mounts
		return errors.Join(err, unix.Unmount(scratch, unix.MNT_DETACH), os.Remove(scratch))
	}
	// Its mounts have moved, or ended with the old root, except a copy in a mount that was taken. The
	// removal ends what other namespaces saw of it. An empty folder that stays harms nobody.
	_ = unix.Unmount(scratch, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	_ = parent.Remove(filepath.Base(scratch))
	return nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// ownMounts returns the mount points of this container, without those below another one.
func ownMounts() (points []string, err error) {
	mounts, err := mounttable.Read(func(point string) bool { return point != "/" })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(mounts, func(a, b mounttable.Mount) int { return cmp.Compare(a.Point, b.Point) })
	for _, m := range mounts {
		covers := func(point string) bool { return mounttable.AtOrBelow(m.Point, point) }
		if !slices.ContainsFunc(points, covers) {
			points = append(points, m.Point)
		}
	}
	return points, nil
}

// change makes a view of the root below scratch, and changes to it.
func change(dir, scratch string, mounts []string) error {
	err := unix.Mount("driver-root", scratch, "tmpfs", 0, "mode=755")
	if err != nil {
		return fmt.Errorf("mount a scratch folder: %w", err)
	}
	err = makePrivate(scratch)
	if err != nil {
		return err
	}
	base, err := overlay(dir, scratch)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(optionsFile) // an earlier start has written it for consumers
	if err != nil {
		return err
	}
	for _, point := range mounts {
		err := takeMount(root, base, point)
		if err != nil {
			return fmt.Errorf("take the mount at %s: %w", point, err)
		}
	}
	return pivot(base)
}

// overlay mounts a writable view of the root below scratch.
func overlay(dir, scratch string) (base string, err error) {
	lower, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer lower.Close()
	base = filepath.Join(scratch, "root")
	for _, name := range []string{"root", "upper", "work"} {
		err := os.Mkdir(filepath.Join(scratch, name), 0o755)
		if err != nil {
			return "", err
		}
	}
	// the descriptor: a path may have characters that separate options
	options := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=%[2]s/upper,workdir=%[2]s/work",
		lower.Fd(), scratch)
	err = unix.Mount("driver-root", base, "overlay", 0, options)
	if err != nil {
		return "", fmt.Errorf("mount an overlay of the root: %w", err)
	}
	return base, makePrivate(base)
}

// takeMount shows a mount of this process, with all that is mounted in it, at its path below base.
func takeMount(root *os.Root, base, point string) error {
	st, err := os.Stat(point)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(point, "/")
	if st.IsDir() {
		err = ownFolder(root, name)
	} else {
		err = ownFile(root, name)
	}
	if err != nil {
		return err
	}
	return bind(point, filepath.Join(base, name), unix.MS_REC)
}

// ownFile creates an empty file in the root unless it has one. It refuses links in the path.
func ownFile(root *os.Root, name string) error {
	err := ownFolder(root, path.Dir(name))
	if err != nil {
		return err
	}
	st, err := root.Lstat(name)
	if err == nil && st.Mode().IsRegular() {
		return nil
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// pivot makes base the root of the mount namespace, as runc does: the old root, which is stacked on
// the new one for a moment, goes without a trace on the host.
func pivot(base string) error {
	old, err := os.Open("/")
	if err != nil {
		return err
	}
	defer old.Close()
	err = unix.Chdir(base)
	if err != nil {
		return err
	}
	err = unix.PivotRoot(".", ".")
	if err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	err = unix.Fchdir(int(old.Fd()))
	if err != nil {
		return err
	}
	err = unix.Mount("", ".", "", unix.MS_SLAVE|unix.MS_REC, "")
	if err != nil {
		return fmt.Errorf("separate the old root: %w", err)
	}
	err = unix.Unmount(".", unix.MNT_DETACH)
	if err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	return unix.Chdir("/")
}
