package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
)

// Host is the machine that New binds an instance to. Its zero value, but for Say, is the one that this program runs on.
type Host struct {
	Say  func(format string, args ...any) // a line of the log; required
	Rest func()                           // called when the start is over and the long wait begins; may be nil
	// Last is called when everything is taken down or left, just before others can have the node: what is told of the node as a whole has
	// to be told now, for a successor may have its own word a moment later. It must be quick. May be nil.
	Last func()
	// Clearance is asked before another driver is taken down; nil: nobody is.
	Clearance Clearance
}

// hostRoot is the host's own root, visible where the pod has hostPID.
const hostRoot = "/proc/1/root"

// New makes an instance for the machine that this program runs on, from the image that it is part of.
func New(cfg Config, h Host) (*Node, error) {
	info, err := driverinfo.Read(os.DirFS("/"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; this program only works in an image that driver-build made", ErrConfig, err)
	}
	release, err := kernelRelease()
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("which boot is this: %w", err)
	}
	if err := os.MkdirAll(cfg.Run, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	st := Status{Schema: StatusSchema, BootID: strings.TrimSpace(string(boot)), Instance: newInstance(), PID: os.Getpid(), Pod: cfg.Pod,
		PodSpace: cfg.PodNamespace, PodUID: cfg.PodUID, Image: cfg.Image, Started: time.Now().UTC().Truncate(time.Second), Kernel: release, Wanted: info.Driver}
	n := &Node{
		cfg: cfg, info: info, release: release, say: h.Say, now: time.Now,
		markers: markers{run: cfg.Run, digest: cfg.Digest}, instanceFile: InstanceFile, clearance: h.Clearance,
		board: &board{shelf: statusFile(cfg.statusPath()), say: h.Say, now: time.Now, st: st, changed: make(chan struct{}, 1)},
	}
	nothing := func() {}
	if n.rest, n.last = h.Rest, h.Last; n.rest == nil {
		n.rest = nothing
	}
	if n.last == nil {
		n.last = nothing
	}
	if n.hook, err = newKernelHook(cfg, info); err != nil {
		h.Say("%v", err)
	}
	supply := &supply{cfg: cfg, info: info, say: h.Say}
	if supply.signer, err = loadSigner(cfg, h.Say); err != nil {
		return nil, err
	}
	n.kernel, n.supplier = &modules{release: release}, supply
	n.hardware = &machine{cfg: cfg, info: info, release: release, supply: supply, supported: sync.OnceValues(func() (preflight.Supported, error) {
		return preflight.ReadSupported(supportedGPUs)
	})}
	n.children = &attendants{cfg: cfg, say: h.Say}
	n.locker = &nodeLock{cfg: cfg, say: h.Say, waits: n.waitsForLock}
	if n.roots, err = newRoots(cfg, info, h.Say); err != nil {
		return nil, err
	}
	return n, nil
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("which kernel runs: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// nodeLock is the real lock.
type nodeLock struct {
	cfg   Config
	say   func(string, ...any)
	waits func(lock.Holder)
}

func (l *nodeLock) Acquire(ctx context.Context) (held, error) {
	return lock.Acquire(ctx, lock.Options{
		Path: l.cfg.lockPath(), Legacy: l.cfg.legacyLock(), Timeout: l.cfg.LockTimeout, Say: l.say, Waits: l.waits,
		Self: lock.Holder{Pod: l.cfg.podText(), Image: l.cfg.Image, Host: l.cfg.Host},
	})
}

// modules are the kernel's.
type modules struct {
	kmod.System
	release string
}

// Flavour is in the driver's own words: "NVIDIA UNIX Open Kernel Module" or "NVIDIA UNIX x86_64 Kernel Module".
func (m *modules) Flavour() (string, error) {
	data, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "", fmt.Errorf("which flavour of the driver is loaded: %w", err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if bytes.Contains(line, []byte("Open Kernel Module")) {
		return driverinfo.Open, nil
	}
	return driverinfo.Proprietary, nil
}

// InsertInTree loads modules of the kernel where they can be found. What is missing is not an error here: a driver that needs it
// is refused with the symbol that it lacks. The host's tree counts first: where the driver root is this container's own, its index has
// NVIDIA's modules and no others.
func (m *modules) InsertInTree(ctx context.Context, names ...string) ([]string, error) {
	inserted, _, err := m.InsertDeps(ctx, m.release, []string{"/host", hostRoot, "/"}, names...)
	return inserted, err
}

// What the child in which a module is deleted is called with, and how it ends.
const (
	DeleteVerb   = "__delete-module"
	DeleteInUse  = 3
	DeleteAbsent = 4
)

// deleteWait is how long the kernel may take for one module. Measured: 0.1 s each.
const deleteWait = 30 * time.Second

// Delete unloads a module in a child, which is left behind when the kernel does not come back.
func (m *modules) Delete(ctx context.Context, name string) error {
	code, out, err := runChild(ctx, deleteWait, DeleteVerb, name)
	switch {
	case err != nil:
		return fmt.Errorf("unload %s: %w; the kernel keeps it in state %q: reboot the node", name, err, m.state(name))
	case code == 0:
		return nil
	case code == DeleteInUse:
		return fmt.Errorf("unload %s: %w", name, kmod.ErrInUse)
	case code == DeleteAbsent:
		return fmt.Errorf("unload %s: %w", name, fs.ErrNotExist)
	}
	return fmt.Errorf("unload %s: %s", name, strings.TrimSpace(out))
}

func (m *modules) state(name string) string {
	live, err := m.Module(name)
	if err != nil {
		return "unknown"
	}
	return live.State
}

// errHung says that a child did not end in time and cannot be killed.
var errHung = errors.New("no answer from the kernel")

// mounted says whether a path is a mount point in this container.
func mounted(path string) (bool, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return mountinfo.Mounted(target)
}
