// Package kmod talks to Linux about kernel modules: what a module file says about itself
// (ReadInfo), which parameters the machine's files give it (ReadOptions), what is loaded and which
// modules use it (System.Module, Loaded, Stack, Params), loading (Insert, InsertDeps), unloading
// (Delete), and which processes hold NVIDIA's devices (Holders).
//
// Only Insert, InsertDeps and Delete change the kernel; everything else reads. The package makes no
// decisions (what to load, when to unload, which processes to wait for), stops no process, creates
// no device node, never forces an unload or a version, and starts no program. Package kmod/kbuild
// compiles modules.
package kmod

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Errors for callers to test with errors.Is. The error for a module that is not there is
// fs.ErrNotExist. The kernel's own answer is available as a unix.Errno.
var (
	// ErrFormat: the file is not a Linux kernel module for a 64 bit little endian machine, or is
	// damaged.
	ErrFormat = errors.New("not a kernel module")
	// ErrLoaded: a module of this name is in the kernel already (EEXIST).
	ErrLoaded = errors.New("module is already loaded")
	// ErrInUse: the module has references or other modules use it (EAGAIN), or it is starting or
	// stopping (EBUSY).
	ErrInUse = errors.New("module is in use")
	// ErrStuck: the kernel has not answered in time, and the system call continues in the
	// background.
	ErrStuck = errors.New("the kernel does not answer")
)

// System says where the kernel shows its state. The zero value is the machine that runs this
// program; tests set other folders.
type System struct {
	Sys  string // "" is /sys
	Proc string // "" is /proc
	Kmsg string // "" is /dev/kmsg
	// "" is /: one of the two roots with the kubelet's /var/log/pods; the other is the root of
	// process 1
	Root string

	// nil: the system call; kind is the file's compression, "" for none
	load func(f *os.File, kind, params string) error
}

func (s System) sys(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(s.Sys, "/sys")}, elem...)...)
}

func (s System) proc(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(s.Proc, "/proc")}, elem...)...)
}

const (
	maxModules = 1 << 13 // loaded at the same time; a large server has 300
	// bytes of a file in sysfs (the kernel's limit is one page) and of small files in /proc
	maxSmall     = 1 << 17
	maxProcTable = 4 << 20 // bytes of /proc/modules and other tables
)

// ModuleName returns the kernel's name of a module: with _ where people and file names may have -.
func ModuleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

var moduleName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// validName refuses names that would be paths.
func validName(name string) error {
	if !moduleName().MatchString(name) {
		return fmt.Errorf("module name %.80q: want 1 to 64 letters, digits, _ and -", name)
	}
	return nil
}

// readSmall reads a whole file of the kernel, at most limit bytes, and returns it without the final
// newline. A sysfs attribute that one read does not return whole is longer than the kernel makes
// them: readSmall returns an error instead of a truncated value.
func readSmall(path string, limit int64) (string, error) {
	text, err := bounded.Text(path, limit)
	return strings.TrimRight(text, "\n"), err
}

// optional reads a small file that may be absent. It returns "" then, and when the module goes away
// during the read.
func optional(path string) string {
	text, err := readSmall(path, maxSmall)
	if err != nil {
		return ""
	}
	return text
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// ignoreMissing returns nil for what does not exist.
func ignoreMissing(err error) error {
	if isNotExist(err) {
		return nil
	}
	return err
}
