// Package host implements the interfaces of package node for the real machine: the kernel's
// modules, the driver root, module files, daemons, hardware and the node's lock. It does not decide
// the order of a start or a stop; package node does.
package host

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/driverroot"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/mounttable"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/selinux"
	"github.com/driver-container/driver-container/node/status"
)

// rootOfInit is the root of process 1: the host's own root if the pod has hostPID.
const rootOfInit = "/proc/1/root"

// New returns an instance for the machine that this program runs on, from the image that it is part
// of. Of the options only Log is required; New sets Status.
func New(cfg config.Config, o node.Options) (*node.Node, error) {
	info, err := readInfo("/")
	if err != nil {
		return nil, err
	}
	release, err := kernelRelease()
	if err != nil {
		return nil, err
	}
	boot, err := driverroot.BootID()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Run, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	o.Status = status.NewStore(
		status.Snapshot{
			Schema:   status.Schema,
			BootID:   boot,
			Instance: rand.Text(),
			PID:      os.Getpid(),
			Pod:      cfg.Pod,
			PodSpace: cfg.PodNamespace,
			PodUID:   cfg.PodUID,
			Image:    cfg.Image,
			Started:  time.Now().UTC().Truncate(time.Second),
			Kernel:   release,
			Wanted:   info.Driver,
			Choice:   o.Choice,
		},
		status.Folder(cfg.Run),
		o.Log,
	)
	m, err := machine(cfg, info, release, o.Log)
	if err != nil {
		return nil, err
	}
	return node.New(cfg, m, o), nil
}

// machine returns the real implementation of the phases' interfaces.
func machine(
	cfg config.Config,
	info driverinfo.Description,
	release string,
	log *slog.Logger,
) (node.Machine, error) {
	cfg.VGPU = cfg.VGPU || info.VGPU != ""
	onHost, err := mounted(cfg.StateDir)
	if err != nil {
		return node.Machine{}, fmt.Errorf("is %s storage of the host: %w", cfg.StateDir, err)
	}
	signer, err := loadSigner(cfg, log)
	if err != nil {
		return node.Machine{}, err
	}
	baked, err := readIndex(cfg.StateDir)
	var warnings []string
	if err != nil {
		warnings = []string{fmt.Sprintf("baked drivers are not known, so no old root and no old modules are removed: %v", err)}
	}
	root := newRoot(cfg, info, release, onHost, log)
	root.Baked = baked.roots(cfg.StateDir)
	supply := &supply{cfg: cfg, info: info, log: log, signer: signer, baked: baked}
	supported := sync.OnceValues(
		func() (preflight.Supported, error) { return preflight.ReadSupported(supportedGPUs) },
	)
	kernel := &liveKernel{release: release}
	return node.Machine{
		Info: info, Release: release, HostStorage: onHost, Warnings: warnings,
		Kernel: kernel, Roots: root, Supplier: supply,
		StartDaemons: (&daemonStarter{cfg: cfg, log: log, kernel: kernel}).Start,
		TakeLock: func(ctx context.Context, waits func(lock.Holder)) (node.Lock, error) {
			held, err := lock.Acquire(
				ctx,
				lock.Options{Run: cfg.Run, Timeout: cfg.LockTimeout, Log: log, OnWait: waits,
					Self: lock.Holder{Pod: cfg.PodText(), Image: cfg.Image, Host: cfg.Host}},
			)
			if err != nil {
				return nil, err
			}
			share(log, cfg.Run, root.Storage)
			return held, nil
		},
		Hardware: &hardware{
			cfg:       cfg,
			info:      info,
			supply:    supply,
			supported: supported,
			staging:   room(root),
		},
	}, nil
}

// share lets containers use folders of the host, where SELinux is enabled: other pods read the
// status and the driver root, and this one loads modules of the cache. A host that refuses it may
// serve its pods all the same.
func share(log *slog.Logger, dirs ...string) {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		err := selinux.Share(dir)
		if err != nil {
			log.Warn("SELinux may keep containers from this folder", "path", dir, "error", err)
		}
	}
}

// room returns what the driver root will take, for preflight.
func room(root *driverroot.Root) func() (need, spare preflight.Space) {
	return func() (need, spare preflight.Space) {
		takes, frees := root.Room()
		return preflight.Space(takes), preflight.Space(frees)
	}
}

// newRoot returns a driver root that is staged on the host's storage if StateDir is on it.
func newRoot(
	cfg config.Config,
	info driverinfo.Description,
	release string,
	onHost bool,
	log *slog.Logger,
) *driverroot.Root {
	root := &driverroot.Root{
		Target:  status.RootPath(cfg.Run),
		Image:   "/",
		ID:      info.ID,
		Version: info.Driver,
		Release: release,
		Log:     log,
	}
	if onHost {
		root.Storage = cfg.StateDir
	}
	return root
}

// readInfo reads the description of the driver of an image, or of a root that was staged from one:
// that has no compiler.
func readInfo(root string) (driverinfo.Description, error) {
	info, err := driverinfo.Read(os.DirFS(root))
	if err != nil {
		return driverinfo.Description{}, fmt.Errorf(
			"%w: %w; this program only works in an image that driver-build made",
			config.ErrConfig,
			err,
		)
	}
	info.Toolchain = info.Toolchain && !driverroot.IsStaged(root)
	return info, nil
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("which kernel runs: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// mounted reports whether a path is a mount point in this container.
func mounted(path string) (bool, error) {
	target, err := mounttable.RealPath(path)
	if err != nil {
		return false, err
	}
	mounts, err := mounttable.Read(func(point string) bool { return point == target })
	return len(mounts) > 0, err
}
