package driverroot

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// bareView opens dir as its own file system has it, without anything that is mounted on it or below it: what a copy of the
// image needs, whose folders are covered by procfs, by volumes of the pod (the GPU Operator mounts one over /lib/firmware)
// and by the files that the runtime binds (/etc/hosts). Comparing device numbers would not do: on overlay they do not tell
// file systems apart, and what is covered would stay hidden.
//
// It works by a bind mount in a mount namespace of one thread, which ends at once: nothing of it can be left behind or be seen
// by anybody else, whatever happens to this process. The folder stays open without its namespace.
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
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w (the container has to be privileged)", err)
	}
	// /proc is a mount everywhere. What gets mounted on it belongs to it, so it alone has to be private.
	const place = "/proc"
	if err := unix.Mount("", place, "", unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make %s private: %w", place, err)
	}
	if err := unix.Mount(dir, place, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	fd, err := unix.Open(place, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// onOwnThread calls f on a thread of its own, which ends afterwards. The first thread of a process cannot end and would leave
// /proc/self in f's namespace, so if it is our turn to run on that, it is held while f runs on another.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: that is what ends the thread
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		onOwnThread(f)
	}()
	<-done
}

// rootAt is an os.Root for an open folder.
func rootAt(f *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// view opens the image for a copy. covered are the places in it, relative to it, where something else is mounted; none where the view
// shows what is below. Where nothing may be mounted, what is hidden stays hidden: a pod that mounts something over a folder of the image
// has that folder empty in its root.
func (r Root) view() (image *os.File, covered map[string]bool, err error) {
	if !r.NoMounts {
		image, err = bareView(r.Image)
		return image, nil, err
	}
	dir, err := realPath(r.Image)
	if err != nil {
		return nil, nil, err
	}
	mounts, err := readMounts(func(point string) bool { return point != dir && atOrBelow(point, dir) })
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
