package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
)

// kernel is a fake kernel of another release with one GPU. It takes modules in the order of their
// dependencies, and shows them and the driver as the real one does. Anything else is refused: no module is
// ever unloaded.
type kernel struct {
	dir, release string

	mu     sync.Mutex
	loaded []string // the newest first
	work   time.Duration
	wrong  []error
}

const gpu = "0000:05:00.0" // of the library that stands for NVML

// newKernel makes the files in which the kernel shows itself.
func newKernel(dir, release string) (*kernel, error) {
	k := &kernel{dir: dir, release: release}
	for name, text := range map[string]string{
		"modules": "", "driver/.keep": "", "module/firmware_class/parameters/path": "\n",
		"devices":                "Character devices:\n  1 mem\n\nBlock devices:\n",
		"pci/" + gpu + "/vendor": "0x10de\n", "pci/" + gpu + "/device": "0x20b2\n", "pci/" + gpu + "/class": "0x030200\n",
		"pci/" + gpu + "/subsystem_vendor": "0x10de\n", "pci/" + gpu + "/subsystem_device": "0x1463\n",
		"pci/" + gpu + "/config": "\xde\x10\xb2\x20" + strings.Repeat("\x00", 252), "pci/" + gpu + "/resource": "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n",
	} {
		if err := k.write(name, text); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *kernel) write(name, text string) error {
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) // in place: some are mounted
}

// serve answers system calls until the container has ended, and closes the listener.
func (k *kernel) serve(listener *os.File) {
	defer listener.Close()
	for {
		c, err := next(listener)
		if err != nil {
			return
		}
		c.answer(listener, k.do(c))
	}
}

func (k *kernel) do(c call) unix.Errno {
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	switch c.number {
	case unix.SYS_UNAME:
		if err = k.uname(c); err == nil {
			return 0
		}
	case unix.SYS_FINIT_MODULE:
		begin := time.Now()
		err = k.load(fmt.Sprintf("/proc/%d/fd/%d", c.pid, c.args[0]))
		k.work += time.Since(begin)
		if err == nil {
			return 0
		}
	default:
		err = fmt.Errorf("system call %d", c.number)
	}
	k.wrong = append(k.wrong, err)
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EPERM
}

// load takes a module if it is of this kernel and everything that it needs is loaded.
func (k *kernel) load(file string) error {
	path, err := os.Readlink(file)
	if err != nil {
		return err
	}
	info, err := kmod.ReadInfo(file)
	if err != nil {
		return fmt.Errorf("load %s: %w: %w", path, err, unix.ENOEXEC)
	}
	name := kmod.ModuleName(strings.TrimSuffix(filepath.Base(path), ".ko"))
	switch {
	case slices.Contains(k.loaded, name):
		return fmt.Errorf("load %s: %w", name, unix.EEXIST)
	case info.Release() != k.release:
		return fmt.Errorf("load %s, which is for kernel %q: %w", name, info.Release(), unix.ENOEXEC)
	}
	for _, d := range info.Depends {
		if !slices.Contains(k.loaded, d) {
			return fmt.Errorf("load %s before %s: %w", name, d, unix.ENOENT)
		}
	}
	k.loaded = slices.Insert(k.loaded, 0, name)
	files := map[string]string{
		"module/" + name + "/initstate": "live\n", "module/" + name + "/refcnt": "0\n", "module/" + name + "/srcversion": info.SrcVersion + "\n",
		"modules": strings.Join(k.loaded, " 16384 0 - Live 0x0000000000000000\n") + " 16384 0 - Live 0x0000000000000000\n",
	}
	if info.Version != "" {
		files["module/"+name+"/version"] = info.Version + "\n"
	}
	if name == "nvidia" {
		files["devices"] = "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n509 nvidia-uvm\n\nBlock devices:\n"
		files["driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + info.Version + "  Release Build\nGCC version: 12\n"
		files["driver/nvidia/params"] = "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"
		files["driver/nvidia/gpus/"+gpu+"/information"] = "Model: \t\t NVIDIA\nDevice Minor: \t 0\nGPU Excluded:\t No\n"
	}
	for file, text := range files {
		if err := k.write(file, text); err != nil {
			return err
		}
	}
	return nil
}

// uname is the real one with another release.
func (k *kernel) uname(c call) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	u.Release = [len(u.Release)]byte{}
	copy(u.Release[:], k.release)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.WriteAt(slices.Concat(u.Sysname[:], u.Nodename[:], u.Release[:], u.Version[:], u.Machine[:], u.Domainname[:]), int64(c.args[0]))
	return err
}

// worked returns how long loading took.
func (k *kernel) worked() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.work
}

// refused returns what the kernel did not do.
func (k *kernel) refused() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.wrong...)
}
