package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// hostTree fills the new root: /usr is the kernel's disk, under a layer in memory so that tests can change
// it.
func hostTree() error {
	lab := newRoot + labDir
	for _, dir := range []string{lab + "/usr", lab + "/upper", lab + "/work", lab + "/images", newRoot + "/etc/modprobe.d", newRoot + "/root", newRoot + "/opt", newRoot + "/drivers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountDisk("host", lab+"/usr", "erofs"); err != nil {
		return err
	}
	if err := hideHeaders(lab); err != nil {
		return fmt.Errorf("hide the headers: %w", err)
	}
	layers := fmt.Sprintf("lowerdir=%[1]s/usr/usr,upperdir=%[1]s/upper,workdir=%[1]s/work", lab)
	if err := (mount{"usr", newRoot + "/usr", "overlay", 0, layers}).do(); err != nil {
		return err
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(newRoot+"/usr/"+name, 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, newRoot+"/"+name); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"hostname": "lab\n", "hosts": "127.0.0.1 localhost lab\n", "passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n",
	} {
		if err := os.WriteFile(newRoot+"/etc/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	release, err := os.ReadFile("/os-release")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(newRoot+"/etc/os-release", release, 0o644), copyFile("/init", lab+"/agent"))
}

// hideHeaders hides the kernel's headers by an entry in the upper layer of /usr, when the command line asks
// for it: removing thousands of files through the overlay would take seconds.
func hideHeaders(lab string) error {
	command, err := os.ReadFile("/proc/cmdline")
	if err != nil || !slices.Contains(strings.Fields(string(command)), wire.NoHeaders) {
		return err
	}
	src := lab + "/upper/src"
	if err := os.Mkdir(src, 0o755); err != nil {
		return err
	}
	if err := unix.Setxattr(src, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		return err
	}
	var hidden []string
	for _, pattern := range []string{"lib/linux-kbuild-*", "lib/modules/*/build", "lib/modules/*/source"} {
		found, err := filepath.Glob(lab + "/usr/usr/" + pattern)
		if err != nil {
			return err
		}
		hidden = append(hidden, found...)
	}
	for _, path := range hidden {
		whiteout := lab + "/upper/" + strings.TrimPrefix(path, lab+"/usr/usr/")
		if err := os.MkdirAll(filepath.Dir(whiteout), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(whiteout, unix.S_IFCHR, 0); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
