// Package kmod speaks with Linux about kernel modules: what a module file says of itself (ReadInfo), which parameters it is to
// get (ReadOptions), what is loaded and what stands on it (System.Module, Loaded, Stack, Params), loading (Insert, InsertDeps),
// unloading (Delete), what the kernel logged meanwhile (Mark), and which processes hold NVIDIA's devices (Holders).
//
// It acts only where a name says so: Insert, InsertDeps and Delete change the kernel, everything else reads. It takes no
// decisions (what to load, when to unload, whom to wait for), stops no process, makes no device node, never forces an unload or
// a version, and starts no program. Compiling modules is package kmod/kbuild.
package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Errors for callers to switch on with errors.Is. A module that is not there is fs.ErrNotExist; the kernel's own answer can be
// asked for as a unix.Errno.
var (
	// ErrFormat: the file is not a Linux kernel module for a 64 bit little endian machine, or is damaged.
	ErrFormat = errors.New("not a kernel module")
	// ErrLoaded: a module of this name is in the kernel already (EEXIST).
	ErrLoaded = errors.New("module is already loaded")
	// ErrInUse: the module has references or other modules stand on it (EAGAIN), or it is busy starting or stopping (EBUSY).
	ErrInUse = errors.New("module is in use")
	// ErrStuck: the kernel has not answered in time and the call goes on behind our back.
	ErrStuck = errors.New("the kernel does not answer")
)

// System says where the kernel shows itself. The zero value is the machine that runs this; tests name other folders.
type System struct {
	Sys  string // "" is /sys
	Proc string // "" is /proc
	Kmsg string // "" is /dev/kmsg
	Root string // "" is /: where the kubelet's /var/log/pods is looked for, beside the root of process 1
}

func (s System) sys(elem ...string) string {
	return filepath.Join(append([]string{or(s.Sys, "/sys")}, elem...)...)
}

func (s System) proc(elem ...string) string {
	return filepath.Join(append([]string{or(s.Proc, "/proc")}, elem...)...)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

const (
	maxModules   = 1 << 13 // loaded at once; a large server has 300
	maxSmall     = 1 << 16 // bytes of a file in sysfs (the kernel's own limit is a page) and of small files in /proc
	maxProcTable = 4 << 20 // bytes of /proc/modules and other tables
)

// ModuleName is the name that the kernel uses for a module: with _ where people and files may write -.
func ModuleName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// validName keeps names from becoming paths.
func validName(name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("module name %q: want 1 to 64 characters", name)
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return fmt.Errorf("module name %q: only letters, digits, _ and - are allowed", name)
		}
	}
	return nil
}

// readSmall reads a file of the kernel whole, at most limit bytes, without the newline at its end. A sysfs attribute that
// cannot be read in one go is longer than the kernel makes them: an error, not a cut value.
func readSmall(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(b)) > limit {
		return "", fmt.Errorf("read %s: more than %d bytes", path, limit)
	}
	return string(bytes.TrimRight(b, "\n")), nil
}

// optional reads a small file that need not be there: "" then, and when the module went away meanwhile.
func optional(path string) string {
	text, err := readSmall(path, maxSmall)
	if err != nil {
		return ""
	}
	return text
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
