package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

func fileOp(r wire.Request) (any, error) {
	var f wire.File
	var answer any
	err := with(r, func(file wire.File) (err error) {
		f = file
		switch r.Op {
		case wire.OpRead:
			f.Data, err = os.ReadFile(f.Path)
			answer = f
		case wire.OpWrite:
			err = write(f)
		case wire.OpRemove:
			err = os.RemoveAll(f.Path)
		case wire.OpList:
			answer, err = list(f.Path)
		case wire.OpInsert:
			answer, err = insertFile(f.Path)
		case wire.OpModule:
			err = modprobe(f.Path)
		default:
			err = errors.New("no such request: " + r.Op)
		}
		return err
	})
	return answer, err
}

func write(f wire.File) error {
	if f.Mode == 0 {
		f.Mode = 0o644
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return err
	}
	// Do not write a new file and rename it: the path may be a file of the kernel (proc, sysfs).
	out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fs.FileMode(f.Mode))
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	return errors.Join(err, out.Close())
}

// list walks one file system. It leaves out a folder that is removed meanwhile.
func list(top string) ([]wire.Entry, error) {
	var all []wire.Entry
	var first unix.Stat_t
	if err := unix.Lstat(top, &first); err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: top, Err: err}
	}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone, or not ours to read
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return nil //nolint:nilerr // gone
		}
		all = append(all, entry(path, d, st))
		if d.IsDir() && st.Dev != first.Dev {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

func entry(path string, d fs.DirEntry, st unix.Stat_t) wire.Entry {
	e := wire.Entry{Path: path}
	info, err := d.Info()
	if err != nil {
		return e
	}
	e.Mode = info.Mode().String()
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		e.Link, _ = os.Readlink(path) // empty if it has just been removed
	case unix.S_IFCHR, unix.S_IFBLK:
		e.Major, e.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	case unix.S_IFREG:
		e.Size = st.Size
	}
	return e
}

// insertFile inserts any module file. If the kernel refuses it, the refusal is the answer, not an error.
func insertFile(path string) (wire.Inserted, error) {
	f, err := os.Open(path)
	if err != nil {
		return wire.Inserted{}, err
	}
	defer f.Close()
	var errno unix.Errno
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.As(err, &errno) {
		return wire.Inserted{}, err
	}
	return wire.Inserted{Errno: int(errno)}, nil
}

// modprobe inserts a module of the running kernel after the modules it needs, by modules.dep.
func modprobe(name string) error {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	dir := filepath.Join("/lib/modules", unix.ByteSliceToString(uts.Release[:]))
	text, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		file, needs, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_") != name {
			continue
		}
		order := strings.Fields(needs) // modules.dep lists the module to load first at the end
		for _, needed := range slices.Backward(order) {
			if err := insert(filepath.Join(dir, needed)); err != nil {
				return err
			}
		}
		return insert(filepath.Join(dir, file))
	}
	return fmt.Errorf("%s/modules.dep has no module %s", dir, name)
}
