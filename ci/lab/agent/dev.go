package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fillDev makes /dev as containerd does for a privileged container: a tmpfs with a copy of every node that
// the host has at this moment. A DaemonSet that mounts the host's /dev gets the host's instead.
func fillDev(dev string, host bool) error {
	if host {
		if err := unix.Mount("/dev", dev, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		return unix.Mount("", dev, "", unix.MS_PRIVATE|unix.MS_REC, "")
	}
	if err := (mount{"tmpfs", dev, "tmpfs", unix.MS_NOSUID | unix.MS_STRICTATIME, "mode=755,size=65536k"}).do(); err != nil {
		return err
	}
	if err := copyNodes("/dev", dev); err != nil {
		return err
	}
	for link, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		_ = os.Remove(filepath.Join(dev, link)) // ptmx was copied as a node
		if err := os.Symlink(target, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	return mountAll(
		mount{"devpts", dev + "/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
		mount{"mqueue", dev + "/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		mount{"shm", dev + "/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=1777,size=65536k"},
	)
}

func copyNodes(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has just gone
		}
		if d.IsDir() && slices.Contains([]string{"pts", "shm", "mqueue", "fd"}, d.Name()) {
			return fs.SkipDir
		}
		if d.Type()&fs.ModeDevice == 0 {
			return nil
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil //nolint:nilerr // it has just gone
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(target, st.Mode, int(st.Rdev)); err != nil {
			return fmt.Errorf("mknod %s: %w", target, err)
		}
		return os.Chmod(target, fs.FileMode(st.Mode&0o777))
	})
}
