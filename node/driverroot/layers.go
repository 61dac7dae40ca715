package driverroot

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

// layers are the folders that contain the image's files: the lower folders of the container's
// overlay, opened on the host, the topmost first. A file of a staged root that is identical to a
// file in them need not be copied, see share.go.
type layers []*os.File

func (l layers) close() {
	for _, f := range l {
		f.Close()
	}
}

// openTarget opens dir, the folder of a copy of the image, and the image's layers with which the
// copy can share files. If sharing is not possible, reason says why and there are no layers.
func (r *Root) openTarget(dir string) (target *os.File, image layers, reason, err error) {
	init := cmp.Or(r.init, "/proc/1")
	if r.NoMounts {
		reason = errors.New("this container is not privileged")
	} else if image, reason = openLayers(init, r.Image); reason == nil {
		target, reason = image.beside(init, dir)
		if reason == nil {
			return target, image, nil, nil
		}
		image.close()
	}
	target, err = os.Open(dir)
	return target, nil, reason, err
}

// openLayers finds the layers of the image, which is at dir in this container, and opens them
// through process 1, which is the host's when the pod has hostPID. Anything that is missing for
// that (no overlay, no hostPID, an unusual snapshotter) is an error, and the image is copied. init
// is the folder of process 1 in procfs.
func openLayers(init, dir string) (l layers, err error) {
	dir, err = mounttable.RealPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := mounttable.Containing(dir)
	if err != nil {
		return nil, err
	}
	if m.FSType != "overlay" || metacopy(m.Options) {
		return nil, fmt.Errorf(
			"%s is on %s, not on an overlay whose files have their data with them",
			dir,
			m.FSType,
		)
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
	for _, lower := range overlayLowers(m.Options) {
		f, err := openIn(host, filepath.Join(lower, m.Root, inside))
		if err != nil {
			continue
		}
		l = append(l, f)
	}
	if len(l) == 0 {
		return nil, errors.New("none of the image's layers is to be found on the host")
	}
	return l, nil
}

func hostRoot(init string) (*os.File, error) {
	fd, err := unix.Open(
		filepath.Join(init, "root"),
		unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC,
		0,
	)
	if err != nil {
		return nil, fmt.Errorf("open the host's root: %w", err)
	}
	return os.NewFile(uintptr(fd), init+"/root"), nil
}

// openIn opens a folder of the host by its path there; links in the path, also absolute ones, are
// resolved as on the host. A kernel without openat2 (before 5.6) returns an error, and the image is
// copied.
func openIn(host *os.File, dir string) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(host.Fd()), strings.TrimPrefix(dir, "/"), how)
		// EAGAIN: something was renamed meanwhile
		if try < 8 && (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open %s on the host: %w", dir, err)
		}
		return os.NewFile(uintptr(fd), dir), nil
	}
}

// beside opens dir, a folder of ours on the storage, through the mount of the layers. A hard link
// needs both names in one mount, not only in one file system, and the pod's volume is a mount of
// its own.
func (l layers) beside(init, dir string) (*os.File, error) {
	own, err := mounttable.Containing(dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(own.Point, dir)
	if err != nil {
		return nil, err
	}
	home, err := mountOf(init, l[0])
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
	if !isSameFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), dir) {
		err = fmt.Errorf("it is not %s", dir)
	} else {
		err = unix.Faccessat(int(f.Fd()), ".", unix.W_OK, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s on the host: %w", f.Name(), err)
	}
	return f, nil
}

// mountOf returns the mount of process 1 that contains an open folder.
func mountOf(init string, f *os.File) (mounttable.Mount, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return mounttable.Mount{}, err
	}
	mounts, err := mounttable.ReadFile(filepath.Join(init, "mountinfo"), nil)
	if err != nil {
		return mounttable.Mount{}, err
	}
	for _, m := range mounts {
		if st.Mask&unix.STATX_MNT_ID != 0 && uint64(m.ID) == st.Mnt_id { //nolint:gosec // never negative
			return m, nil
		}
	}
	return mounttable.Mount{}, fmt.Errorf("%s is in no mount of process 1", f.Name())
}

// maxLayers is the kernel's limit (OVL_MAX_STACK).
const maxLayers = 500

// overlayLowers returns the lower folders of an overlay from its options in mountinfo, the topmost
// first, as paths in the mount namespace of the runtime that mounted it, which is the host's. There
// are two forms: lowerdir=A:B, and lowerdir+=A for each folder (the mount calls of Linux 6.5).
// Options of another kind give no folders: names with escapes (\: and, in mountinfo, \040),
// relative names, which containerd uses for some fifty layers and more, and overlay attributes in
// the user namespace, which this package does not read.
func overlayLowers(options string) (lowers []string) {
	if strings.Contains(options, `\`) {
		return nil
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "lowerdir":
			// A::B: B has only data
			lowers = append(lowers, strings.Split(strings.ReplaceAll(value, "::", ":"), ":")...)
		case "lowerdir+":
			lowers = append(lowers, value)
		case "userxattr":
			return nil
		}
	}
	for i, name := range lowers {
		if !filepath.IsAbs(name) || i >= maxLayers {
			return nil
		}
		lowers[i] = filepath.Clean(name)
	}
	return lowers
}

// metacopy says whether an overlay may have files in one layer with their data in another one. Its
// options say so when they differ from the module's parameter.
func metacopy(options string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if value, ok := strings.CutPrefix(option, "metacopy="); ok {
			return value != "off"
		}
	}
	text, err := os.ReadFile("/sys/module/overlay/parameters/metacopy")
	return err != nil || strings.TrimSpace(string(text)) != "N"
}
