//go:build linux

package kmod

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

const (
	nvidiaMajor = 195 // fixed: nvidia0 and on, nvidia-modeset (minor 254), nvidiactl (255)
	drmMajor    = 226
	maxFiles    = 1 << 18 // open files of a process that are examined
	maxMaps     = 16 << 20
)

// deviceTable knows which device numbers belong to which module.
type deviceTable struct {
	system System
	majors map[uint32]string // module by major, except 195
}

// devices reads the majors from /proc/devices: "195 nvidia" below "Character devices:".
func (s System) devices() (*deviceTable, error) {
	text, err := readSmall(s.proc("devices"), maxSmall)
	if err != nil {
		return nil, err
	}
	t := &deviceTable{system: s, majors: map[uint32]string{}}
	text, _, _ = strings.Cut(text, "Block devices:")
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		if len(f) != 2 || !isNVIDIAModule(f[1]) {
			continue
		}
		major, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil {
			continue
		}
		t.majors[uint32(major)] = moduleOfDevice(f[1])
	}
	return t, nil
}

// moduleOfDevice returns the module that registers a device name, or makes a file of that name,
// which may end with a number. nvidia itself registers nvidia-caps, nvidia-nvlink, nvidia-nvswitch
// and nvidia-frontend.
func moduleOfDevice(name string) string {
	switch name = strings.TrimSuffix(strings.TrimRight(ModuleName(name), "0123456789"), "_tools"); name {
	case "nvidia_uvm", "nvidia_modeset", "nvidia_fs", "gdrdrv":
		return name
	}
	return "nvidia"
}

// module returns the module of a character device, if it is one of NVIDIA's or gdrdrv.
func (t *deviceTable) module(rdev uint64) (string, bool) {
	major := unix.Major(rdev)
	minor := unix.Minor(rdev)
	switch {
	case major == nvidiaMajor && minor == 254:
		return "nvidia_modeset", true
	case major == nvidiaMajor:
		return "nvidia", true
	case major == drmMajor:
		link := t.system.sys(
			"dev",
			"char",
			strconv.Itoa(drmMajor)+":"+strconv.FormatUint(uint64(minor), 10),
			"device",
			"driver",
		)
		driver, _ := os.Readlink(link) //nolint:errcheck // then it is not NVIDIA's
		return "nvidia_drm", filepath.Base(driver) == "nvidia"
	}
	module, ok := t.majors[major]
	return module, ok
}

// file returns the module of the file behind a path of /proc. It does not ask a network file system
// for fresh attributes.
func (t *deviceTable) file(path string) (module string, ok bool) {
	var st unix.Statx_t
	err := unix.Statx(
		unix.AT_FDCWD,
		path,
		unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE,
		&st,
	)
	if errors.Is(err, unix.ENOSYS) { // before Linux 4.11
		var old unix.Stat_t
		err = unix.Stat(path, &old)
		if err == nil && old.Mode&unix.S_IFMT == unix.S_IFCHR {
			return t.module(old.Rdev)
		}
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return "", false
	}
	return t.module(unix.Mkdev(st.Rdev_major, st.Rdev_minor))
}

// heldFile is a device file that a process holds.
type heldFile struct{ path, module string }

// processScan looks at one process.
type processScan struct {
	dir     string // in /proc
	devices *deviceTable
	found   chan<- heldFile
}

// add passes on a file, by a path for people: without the suffix of a file whose name was removed,
// see parseMap.
func (p processScan) add(ctx context.Context, path, module string) {
	select {
	case p.found <- heldFile{kmsg.Printable(strings.TrimSuffix(path, " (deleted)")), module}:
	case <-ctx.Done():
	}
}

// run looks at the open files and then at the mapped ones, because a device can be closed and stay
// mapped. For a process that ends meanwhile, or that this program may not look at, the files found
// so far count.
func (p processScan) run(ctx context.Context) {
	links := p.links()
	look := func(likely bool) {
		for name, target := range links {
			if ctx.Err() != nil {
				return
			}
			if likely != (strings.HasPrefix(target, "/dev/") || strings.Contains(target, "nvidia")) {
				continue
			}
			if module, ok := p.devices.file(p.dir + "/fd/" + name); ok {
				p.add(ctx, target, module)
			}
		}
	}
	look(true)
	p.maps(ctx)
	look(false)
}

// links returns the open files that have a path, as name in fd to path. Sockets, pipes and the like
// have none.
func (p processScan) links() map[string]string {
	d, err := os.Open(p.dir + "/fd")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxFiles) //nolint:errcheck // an empty list is io.EOF, a process that ended ESRCH
	links := map[string]string{}
	for _, n := range names {
		target, _ := os.Readlink(p.dir + "/fd/" + n) //nolint:errcheck // closed meanwhile
		if strings.HasPrefix(target, "/") {
			links[n] = target
		}
	}
	return links
}

// maps looks at mapped files through /proc/PID/map_files, whose links lead to the file itself.
// Device nodes can be on file systems without a block device (major 0: devtmpfs, tmpfs, overlay);
// maps skips files on others unless the name says nvidia.
func (p processScan) maps(ctx context.Context) {
	f, err := os.Open(p.dir + "/maps")
	if err != nil {
		return
	}
	defer f.Close()
	last := ""
	for lines := bufio.NewScanner(io.LimitReader(f, maxMaps)); lines.Scan() && ctx.Err() == nil; {
		m, ok := parseMap(lines.Text())
		if !ok || m.path == last ||
			!strings.HasPrefix(m.device, "00:") && !strings.Contains(m.path, "nvidia") {
			continue
		}
		last = m.path // a file is mapped in several parts
		module, ok := p.devices.file(p.dir + "/map_files/" + m.span)
		if !ok && strings.HasPrefix(m.path, "/dev/nvidia") {
			// Without map_files, which requires CAP_SYS_ADMIN, only the name is left.
			if _, err := os.Readlink(p.dir + "/map_files/" + m.span); err != nil {
				module = moduleOfDevice(filepath.Base(m.path))
				ok = true
			}
		}
		if ok {
			p.add(ctx, m.path, module)
		}
	}
}

type mapping struct {
	span   string // "7f12a000-7f12b000", the name in map_files
	device string // of the file system: "00:05"
	path   string
}

// parseMap parses a line of /proc/PID/maps: "span permissions offset device inode path". Inode 0
// means no file. maps pads addresses with zeros, map_files does not and refuses padded ones.
func parseMap(line string) (mapping, bool) {
	slash := strings.IndexByte(line, '/')
	if slash < 0 {
		return mapping{}, false
	}
	f := strings.Fields(line[:slash])
	if len(f) != 5 || f[4] == "0" {
		return mapping{}, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	if strings.Trim(from, "0123456789abcdef") != "" || strings.Trim(to, "0123456789abcdef") != "" ||
		to == "" {
		return mapping{}, false
	}
	span := cmp.Or(strings.TrimLeft(from, "0"), "0") + "-" + cmp.Or(strings.TrimLeft(to, "0"), "0")
	return mapping{
		span:   span,
		device: f[3],
		path:   strings.TrimSuffix(line[slash:], " (deleted)"),
	}, true
}
