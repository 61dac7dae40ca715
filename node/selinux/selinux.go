// Package selinux labels folders of the host so that containers may use what is in them, where
// SELinux is enabled. It knows one type of files, and no policy: whether a label is allowed, the
// kernel says.
package selinux

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Type is the type of files that every container may read and run, and from which a privileged one
// (spc_t) may load kernel modules: see container.te of github.com/containers/container-selinux.
// What a container creates in the host's /var/lib and /run has the type of the folder above,
// var_lib_t or var_run_t, which no other container may read. NVIDIA's containers give this type to
// their device files (chcon).
const Type = "container_file_t"

const (
	attribute   = "security.selinux"
	maxLabel    = 4096    // bytes; the kernel's own limit is a page
	maxText     = 1 << 16 // bytes of /proc/filesystems
	filesystems = "/proc/filesystems"
)

// Share gives a folder or file, and all in it that has the same type, the type Type. What is
// created in it later inherits it. What has another type keeps it: hard links to the files of an
// image have that of the image's layers. Nothing on another file system is changed, and nothing
// where SELinux is off. The folder itself comes last, so that a killed Share is repeated.
func Share(path string) error { return share(path, filesystems) }

func share(path, filesystems string) error {
	known, err := bounded.Text(filesystems, maxText)
	// the kernel lists it only if SELinux is enabled
	if err != nil || !strings.Contains(known, "\tselinuxfs\n") {
		return err
	}
	from, err := typeOf(path)
	if err != nil || from == Type {
		return err
	}
	err = shareBelow(path, from)
	if err == nil {
		err = retype(path, from)
	}
	if err != nil {
		return fmt.Errorf(
			"label %s for containers: %w; run on the node: chcon -R -t %s %[1]s",
			path,
			err,
			Type,
		)
	}
	return nil
}

// shareBelow changes what is in a folder and on its file system.
func shareBelow(top, from string) error {
	var home unix.Stat_t
	if err := unix.Lstat(top, &home); err != nil {
		return err
	}
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == top {
			return nil
		}
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		switch {
		case err != nil:
		case st.Dev == home.Dev:
			err = retype(path, from)
		case entry.IsDir():
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		return err
	})
}

// retype changes the type of a label that has the type from, and nothing else of it.
func retype(path, from string) error {
	fields, err := label(path)
	if err != nil || fields[typeField] != from {
		return err
	}
	fields[typeField] = Type
	err = unix.Lsetxattr(path, attribute, []byte(strings.Join(fields, ":")), 0)
	if err != nil {
		return fmt.Errorf("set the label of %s: %w", path, err)
	}
	return nil
}

func typeOf(path string) (string, error) {
	fields, err := label(path)
	if err != nil {
		return "", err
	}
	return fields[typeField], nil
}

const typeField = 2

// label returns the fields of a label: user, role, type and, with most policies, a level.
func label(path string) ([]string, error) {
	text := make([]byte, maxLabel)
	n, err := unix.Lgetxattr(path, attribute, text)
	if err != nil {
		return nil, fmt.Errorf("read the label of %s: %w", path, err)
	}
	fields := strings.SplitN(strings.TrimRight(string(text[:n]), "\x00"), ":", typeField+2)
	if len(fields) <= typeField {
		return nil, fmt.Errorf("the label of %s, %.200q, has no type", path, text[:n])
	}
	return fields, nil
}
