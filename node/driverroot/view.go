package driverroot

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// bareView opens dir without anything that is mounted on it or below it. A copy of the image needs
// this: the image's folders are covered by procfs, by volumes of the pod (the GPU Operator mounts
// one over /lib/firmware) and by files that the runtime binds (/etc/hosts). Comparing device
// numbers would not work: on overlay they do not distinguish file systems, and covered files would
// stay hidden.
//
// It uses a bind mount in the mount namespace of one thread, which ends at once: nothing can be
// left behind or be seen by another process, whatever happens to this one. The folder stays open
// without its namespace.
func bareView(dir string) (*os.File, error) {
	var f *os.File
	var err error
	onOwnThread(func() { f, err = openBare(dir) })
	if err != nil {
		return nil, fmt.Errorf("open %s without what is mounted on it: %w", dir, err)
	}
	return f, nil
}

func openBare(dir string) (*os.File, error) {
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err != nil {
		return nil, fmt.Errorf("unshare: %w (the container has to be privileged)", err)
	}
	// /proc is a mount everywhere. New mounts on it belong to it, so only this mount has to be
	// private.
	const over = "/proc"
	err = makePrivate(over)
	if err != nil {
		return nil, err
	}
	err = bind(dir, over, 0)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(over, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// onOwnThread calls f on a thread of its own, which ends afterwards. The first thread of a process
// cannot end and would keep /proc/self in f's namespace; if the goroutine gets that thread, it
// keeps it busy while f runs on another one.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: this ends the thread
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		onOwnThread(f)
	}()
	<-done
}

// bare opens a folder of ours itself and not its path: the host's /lib/modules may be mounted in
// the container, and must not be changed. In a folder on the storage nothing is mounted.
func (r *Root) bare(dir string) (*os.File, error) {
	if r.NoMounts {
		return os.Open(dir)
	}
	return bareView(dir)
}

// bareRoot opens a folder without what is mounted in it.
func (r *Root) bareRoot(dir string) (*os.Root, error) {
	view, err := r.bare(dir)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	return rootAt(view)
}

// rootAt returns an os.Root for an open folder.
func rootAt(f *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// view opens the image for a copy. covered lists the relative paths on which something else is
// mounted; it is empty if the view shows the files below the mounts. If the container may not
// mount, the covered files stay hidden: a folder of the image that a volume covers is then empty in
// the root.
func (r *Root) view() (image *os.File, covered map[string]bool, err error) {
	if !r.NoMounts {
		image, err = bareView(r.Image)
		return image, nil, err
	}
	dir, err := mounttable.RealPath(r.Image)
	if err != nil {
		return nil, nil, err
	}
	mounts, err := mounttable.Read(
		func(point string) bool { return point != dir && mounttable.AtOrBelow(point, dir) },
	)
	if err != nil {
		return nil, nil, err
	}
	covered = make(map[string]bool, len(mounts))
	for _, m := range mounts {
		at, err := filepath.Rel(dir, m.Point)
		if err != nil {
			return nil, nil, err
		}
		covered[at] = true
	}
	image, err = os.Open(dir)
	return image, covered, err
}
