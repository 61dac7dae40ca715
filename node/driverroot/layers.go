package driverroot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// layers are the folders that the image's files really lie in: the lower folders of the container's overlay, as the host has
// them. A file of a staged root that is the same as one of those need not be copied: see share.go.
type layers struct {
	lowers   []*os.File // the topmost first
	upper    *os.File   // what the container itself wrote; nil when this or one of the lowers was not found
	metacopy bool       // a file in them may be without its data
	clones   bool       // the file system of the storage shares blocks between files (btrfs, XFS)
	blind    bool       // overlay's own attributes (trusted.*) are not shown to this process: it lacks CAP_SYS_ADMIN
}

func (l *layers) close() {
	for _, f := range append(l.lowers, l.upper) {
		if f != nil {
			f.Close()
		}
	}
}

// openLayers looks for the layers of the image, which is at dir in this container, and opens them through process 1, which is the
// host's where the pod has hostPID. Whatever is missing for that (no overlay, no hostPID, an unusual snapshotter) gives an error,
// and the image is copied. init is the folder of process 1 in procfs.
func openLayers(init, dir string) (*layers, error) {
	dir, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := containing(dir)
	if err != nil {
		return nil, err
	}
	if m.FSType != "overlay" {
		return nil, fmt.Errorf("%s is on %s, not on an overlay", dir, m.FSType)
	}
	inside, err := filepath.Rel(m.Point, dir)
	if err != nil {
		return nil, err
	}
	host, err := hostRoot(init)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	l := &layers{metacopy: metacopy(m.options), blind: !seesTrusted()}
	if l.metacopy && l.blind {
		return nil, errors.New("files in the image's layers may be without their data, and which ones only CAP_SYS_ADMIN shows")
	}
	lowers, upper := overlayLowers(m.options)
	for _, candidates := range lowers {
		for _, c := range candidates {
			if f, err := openIn(host, filepath.Join(c, m.Root, inside)); err == nil {
				l.lowers = append(l.lowers, f)
				break
			}
		}
	}
	if len(l.lowers) == 0 {
		return nil, errors.New("none of the image's layers is to be found on the host")
	}
	if len(l.lowers) == len(lowers) && filepath.IsAbs(upper) {
		if f, err := openIn(host, filepath.Join(upper, m.Root, inside)); err == nil {
			l.upper = f
		}
	}
	return l, nil
}

// seesTrusted says whether the kernel shows this process trusted.* attributes. To others it says that there are none.
func seesTrusted() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

func hostRoot(init string) (*os.File, error) {
	fd, err := unix.Open(filepath.Join(init, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the host's root: %w", err)
	}
	return os.NewFile(uintptr(fd), init+"/root"), nil
}

// openIn opens a folder of the host by its path there; links in it, also absolute ones, lead to where they lead on the host. A
// kernel without openat2 (before 5.6) is answered by an error, and then by copying.
func openIn(host *os.File, dir string) (*os.File, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(host.Fd()), strings.TrimPrefix(dir, "/"), how)
		if try < 8 && (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)) { // EAGAIN: something was renamed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %s on the host: %w", dir, err)
		}
		return os.NewFile(uintptr(fd), dir), nil
	}
}

// beside opens dir, a folder of ours on the storage, by the mount that the layers are in: a hard link needs both of its names in
// one mount, not only in one file system, and the volume of the pod is a mount of its own.
func (l *layers) beside(init, dir string) (*os.File, error) {
	own, err := containing(dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(own.Point, dir)
	if err != nil {
		return nil, err
	}
	home, err := mountOf(init, l.lowers[0])
	if err != nil {
		return nil, err
	}
	rel, err = filepath.Rel(home.Root, filepath.Join(own.Root, rel))
	if err != nil || home.device != own.device || !filepath.IsLocal(rel) {
		return nil, errors.New("the image's layers are on another file system")
	}
	host, err := hostRoot(init)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	f, err := openIn(host, filepath.Join(home.Point, rel))
	if err != nil {
		return nil, err
	}
	if identityOf(f) != identity(dir) || identity(dir) == (inode{}) {
		f.Close()
		return nil, fmt.Errorf("%s on the host is not %s", f.Name(), dir)
	}
	if err := unix.Faccessat(int(f.Fd()), ".", unix.W_OK, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s on the host: %w", f.Name(), err)
	}
	return f, nil
}

// mountOf is the mount of process 1 that an open folder is in.
func mountOf(init string, f *os.File) (Mount, error) {
	info, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		return Mount{}, err
	}
	defer info.Close()
	id := 0
	for lines := bufio.NewScanner(io.LimitReader(info, 1<<12)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "mnt_id:"); ok {
			if id, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return Mount{}, err
			}
		}
	}
	mounts, err := readMountsOf(filepath.Join(init, "mountinfo"), func(string) bool { return true })
	if err != nil {
		return Mount{}, err
	}
	for _, m := range mounts {
		if m.ID == id {
			return m, nil
		}
	}
	return Mount{}, fmt.Errorf("%s is in no mount of process 1", f.Name())
}
