package treecopy

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

	"github.com/driver-container/driver-container/node/mounttable"
)

// Layers are the folders that contain the image's files: the lower folders of the container's overlay, opened
// on the host. A file of a staged root that is identical to a file in them need not be copied, see share.go.
type Layers struct {
	lowers []*os.File // the topmost first
	// Files that the container itself wrote; nil when this folder or one of the lowers was not found.
	upper    *os.File
	metacopy bool // a file in the layers may be without its data
	clones   bool // the storage's file system can share blocks between files (btrfs, XFS)
	// This process cannot see overlay's own attributes (trusted.*), because it lacks CAP_SYS_ADMIN.
	blind bool
}

// Close closes the folders.
func (l *Layers) Close() {
	for _, f := range append(l.lowers, l.upper) {
		if f != nil {
			f.Close()
		}
	}
}

// OpenTarget opens dir, the folder of a copy of image, and the image's layers with which the copy can share
// files. If sharing is not possible, reason says why and there are no layers. init is the folder of process
// 1 in procfs.
func OpenTarget(dir, image, init string) (target *os.File, layers *Layers, reason, err error) {
	target, err = os.Open(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	layers, reason = openLayers(init, image)
	if reason == nil {
		if layers.clones = canClone(target); layers.clones {
			return target, layers, nil, nil
		}
		var beside *os.File
		if beside, reason = layers.beside(init, dir); reason == nil {
			target.Close()
			return beside, layers, nil, nil
		}
		layers.Close()
	}
	return target, &Layers{}, reason, nil
}

// openLayers finds the layers of the image, which is at dir in this container, and opens them through process
// 1, which is the host's when the pod has hostPID. Anything that is missing for that (no overlay, no hostPID,
// an unusual snapshotter) is an error, and the image is copied. init is the folder of process 1 in procfs.
func openLayers(init, dir string) (*Layers, error) {
	dir, err := mounttable.RealPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := mounttable.Containing(dir)
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
	l := &Layers{metacopy: metacopy(m.Options), blind: !seesTrusted()}
	if l.metacopy && l.blind {
		return nil, errors.New("files in the image's layers may be without their data, and which ones only CAP_SYS_ADMIN shows")
	}
	lowers, upper := overlayLowers(m.Options)
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

// seesTrusted says whether the kernel shows trusted.* attributes to this process. To others it reports that
// there are none.
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

// openIn opens a folder of the host by its path there; links in the path, also absolute ones, are resolved as
// on the host. A kernel without openat2 (before 5.6) returns an error, and the image is copied.
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

// beside opens dir, a folder of ours on the storage, through the mount of the layers. A hard link needs both
// names in one mount, not only in one file system, and the pod's volume is a mount of its own.
func (l *Layers) beside(init, dir string) (*os.File, error) {
	own, err := mounttable.Containing(dir)
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
	if err != nil || home.Device != own.Device || !filepath.IsLocal(rel) {
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

// mountOf returns the mount of process 1 that contains an open folder.
func mountOf(init string, f *os.File) (mounttable.Mount, error) {
	info, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	if err != nil {
		return mounttable.Mount{}, err
	}
	defer info.Close()
	id := 0
	for lines := bufio.NewScanner(io.LimitReader(info, 1<<12)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "mnt_id:"); ok {
			if id, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
				return mounttable.Mount{}, err
			}
		}
	}
	mounts, err := mounttable.ReadFile(filepath.Join(init, "mountinfo"), func(string) bool { return true })
	if err != nil {
		return mounttable.Mount{}, err
	}
	for _, m := range mounts {
		if m.ID == id {
			return m, nil
		}
	}
	return mounttable.Mount{}, fmt.Errorf("%s is in no mount of process 1", f.Name())
}
