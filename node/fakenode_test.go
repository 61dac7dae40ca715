package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// Stage copies the files of the image, of which the fake has the modules alone.
func (i *instance) Stage(_ context.Context, needed []string) (string, error) {
	dir := "roots/" + i.life.version + "-" + i.life.image
	return filepath.Join(i.dir, dir), i.do("stage", func() error {
		i.spares(needed)
		err := os.MkdirAll(filepath.Join(i.dir, dir), 0o755)
		if err == nil && i.life.source == status.FromImage {
			_, err = i.files(dir+filepath.Join(i.dir, i.container()), i.life.version, i.extra...)
		}
		return err
	})
}

// spares requires that what is about to be removed has nothing of the driver that is loaded and recorded.
func (i *instance) spares(needed []string) {
	_, loaded := i.modules["nvidia"]
	if i.saved == nil || i.saved.Up == nil || !loaded || i.disturbed || i.brings != "" {
		return
	}
	for _, m := range i.saved.Up.Modules {
		_, err := os.Stat(m.File)
		if err == nil && !slices.Contains(needed, m.File) || !slices.Contains(needed, i.saved.Up.RootDir) {
			i.wrong = append(i.wrong, fmt.Sprintf("%s of %s may be removed, although it is loaded", m.File, i.saved.Up.RootDir))
		}
	}
}

func (i *instance) SetOptions(string, kmod.Options) error { return nil }

func (i *instance) AddModules(context.Context, string, []kbuild.File) error {
	return i.do("add modules", func() error { return nil })
}

func (i *instance) Mount(_ context.Context, dir string) error {
	return i.do("mount", func() error {
		_, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if len(i.layers) > 0 {
			return fmt.Errorf("something is mounted there: %v", i.layers)
		}
		i.layers = append(i.layers, filepath.Base(dir))
		return nil
	})
}

// Unmount removes layer by layer: it may be interrupted half way.
func (i *instance) Unmount(context.Context) error {
	for left := 1; left > 0; {
		err := i.do("unmount", func() error {
			if left = len(i.layers); left > 0 {
				left--
				i.layers = i.layers[:left]
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) Mounted() (n int, err error) {
	err = i.do("mounted", func() error { n = len(i.layers); return nil })
	return n, err
}

func (i *instance) Adopt(context.Context) (dir string, err error) {
	err = i.do("adopt", func() error {
		if len(i.layers) != 1 || versionOf(i.layers[0]) != i.life.version {
			return errors.New("it is another one")
		}
		dir = filepath.Join(i.dir, "roots", i.layers[0])
		return nil
	})
	return dir, err
}

func (i *instance) Firmware() error {
	return i.do("firmware", func() error { i.firmware = "/run/nvidia/driver/lib/firmware"; return nil })
}

func (i *instance) ClearFirmware() error {
	return i.do("firmware back", func() error { i.firmware = ""; return nil })
}

func (i *instance) Prune(ctx context.Context, needed []string) error {
	if i.slowDisk {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Minute):
		}
	}
	return i.do("prune", func() error { i.spares(needed); return nil })
}

func (i *instance) Find(context.Context, Want) (set *kbuild.Set, source string, err error) {
	source = status.FromCache
	err = i.do("find", func() (err error) {
		folder := i.cached()
		switch {
		case i.life.source != "":
			source, folder = i.life.source, i.container()
		case !i.cache[i.life.version]:
			return kbuild.ErrMiss
		}
		set, err = i.files(folder, i.life.version, i.extra...)
		return err
	})
	return set, source, err
}

// Compile takes a while; a signal interrupts it.
func (i *instance) Compile(ctx context.Context, _ Want, _ CompileEvents) (set *kbuild.Set, err error) {
	if err := i.do("compile", func() error { return nil }); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
	}
	err = i.do("compiled", func() (err error) { set, err = i.files(i.scratch(), i.life.version, i.extra...); return err })
	return set, err
}

func (i *instance) Signer(*kbuild.Set, string) *x509.Certificate { return i.signer }

func (i *instance) Sign(_ context.Context, set *kbuild.Set) (signed *kbuild.Set, err error) {
	err = i.do("sign", func() error { i.signer = nil; signed = set; return nil })
	return signed, err
}

func (i *instance) Keep(_ context.Context, _ *kbuild.Set, needed []string) (set *kbuild.Set, err error) {
	err = i.do("keep", func() (err error) {
		i.spares(needed)
		i.cache[i.life.version] = true
		set, err = i.files(i.cached(), i.life.version, i.extra...)
		return err
	})
	return set, err
}

const daemonPID = 7

func (i *instance) Start(context.Context) (Daemons, error) {
	err := i.do("start daemons", func() error {
		if i.noDaemon {
			return errors.New("nvidia-persistenced ended at once")
		}
		i.running, i.daemon = 1, true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &fakeDaemons{i}, nil
}

type fakeDaemons struct{ i *instance }

func (d *fakeDaemons) States() []daemons.State {
	d.i.mu.Lock()
	defer d.i.mu.Unlock()
	s := daemons.State{Name: "nvidia-persistenced", PID: daemonPID, Running: true, Ready: true, Effect: "GPUs become slow"}
	if d.i.daemonDown {
		s = daemons.State{Name: s.Name, Reason: "it ended with code 1"}
	}
	return []daemons.State{s}
}

func (d *fakeDaemons) Changed() <-chan struct{} { return nil }
func (d *fakeDaemons) PIDs() []int              { return []int{daemonPID} }
func (d *fakeDaemons) Stop(context.Context) error {
	return d.i.do("stop daemons", func() error { d.i.running, d.i.daemon = 0, false; return nil })
}

func (i *instance) GPUs() ([]devices.GPU, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.bus), nil
}

func (i *instance) KernelLog() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	lines := i.log
	i.log = nil
	return lines
}
func (i *instance) Mellanox() (bool, error) { return i.mellanox, nil }
func (i *instance) Options() (kmod.Options, error) {
	o := kmod.Options{}
	for module, param := range map[string]string{"nvidia": i.life.param, "nvidia_uvm": i.life.uvmParam} {
		if param != "" {
			o[module] = []string{param}
		}
	}
	return o, nil
}
func (i *instance) Reasons(string) []string { return []string{"NVRM: RmInitAdapter failed"} }

func (i *instance) Preflight(_ context.Context, in preflight.Input) []preflight.Check {
	if in.HostModules != nil {
		if text, fix := in.HostModules(); text != "" {
			return []preflight.Check{{Name: "modules", Status: preflight.Blocked, Finding: text, Fix: fix}}
		}
	}
	if i.preflightBad {
		return []preflight.Check{{Name: preflight.Headers, Status: preflight.Blocked, Finding: "no headers"}}
	}
	return []preflight.Check{{Name: preflight.Headers, Status: preflight.Warning, Finding: "another compiler"}}
}

// CreateNodes records the nodes that it makes; existing nodes stay as they are.
func (i *instance) CreateNodes(_ context.Context, record func([]devices.Node)) error {
	missing := []devices.Node{{Path: "/dev/nvidiactl", Major: 195, Minor: 255, Made: true}}
	i.mu.Lock()
	for minor, g := range i.bus {
		if g.Bound() {
			missing = append(missing, devices.Node{Path: fmt.Sprintf("/dev/nvidia%d", minor), Major: 195, Minor: uint32(minor), Made: true})
		}
	}
	missing = slices.DeleteFunc(missing, func(n devices.Node) bool { return slices.Contains(i.nodes, n) })
	i.mu.Unlock()
	if len(missing) > 0 {
		record(missing)
	}
	return i.do("create nodes", func() error {
		i.nodes = append(slices.Clone(i.nodes), missing...)
		return nil
	})
}

func (i *instance) RemoveNodes(nodes []devices.Node) error {
	return i.do("remove nodes", func() error {
		i.nodes = slices.DeleteFunc(slices.Clone(i.nodes), func(n devices.Node) bool { return slices.Contains(nodes, n) })
		return nil
	})
}

func (i *instance) Ask(context.Context) (a probe.Answer, err error) {
	err = i.do("ask", func() error {
		a.Driver = i.modules["nvidia"].Version
		if !slices.ContainsFunc(i.bus, devices.GPU.Bound) { // so does NVML
			return errors.New("nvmlInit: Unknown Error")
		}
		for _, g := range i.bus {
			if g.Bound() && !g.Silent && !i.sick {
				a.Devices = append(a.Devices, probe.Device{PCI: "0000" + g.Address, Name: "Tesla T4", Fabric: i.fabric, Licence: i.licence})
			}
			if g.Bound() && g.Silent {
				err = fmt.Errorf("device 1: %w", probe.ErrPartly)
			}
		}
		return err
	})
	return a, err
}

func (i *instance) AskUsage(context.Context) (a probe.Answer, err error) {
	err = i.do("ask usage", func() error {
		a.Driver, a.Devices = i.modules["nvidia"].Version, []probe.Device{{PCI: "00000000:05:00.0"}}
		return nil
	})
	return a, err
}

func (i *instance) EndUsage() { i.mu.Lock(); i.usageEnded = true; i.mu.Unlock() }

// fakeHardware has the hardware's Flavour, because the kernel has a method with the same name.
type fakeHardware struct{ *instance }

func (fakeHardware) Flavour([]devices.GPU, string, string) (string, string, error) {
	return driverinfo.Proprietary, "the only one", nil
}

// Acquire waits for the other instance, or for ctx.
func (i *instance) Acquire(ctx context.Context, waits func(lock.Holder)) (Lock, error) {
	for begin := time.Now(); ; {
		err := i.do("lock", func() error {
			if i.locked {
				return lock.ErrHeld
			}
			i.locked, i.holds, i.began, i.lockFile = true, true, true, ""
			return nil
		})
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, lock.ErrHeld) || time.Since(begin) > 20*time.Minute {
			return nil, err
		}
		waits(lock.Holder{PID: 7, Pod: "gpu/old"})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (i *instance) Release() error {
	return i.do("release", func() error { i.locked, i.holds = false, false; return nil })
}

func (i *instance) Lost() (err error) {
	return i.do("lost", func() error {
		if i.lockFile == "" {
			return nil
		}
		return errors.New("another program replaced the lock file")
	})
}

func (i *instance) Retake() error {
	return i.do("retake", func() error {
		if i.lockFile == "stolen" {
			return &lock.HeldError{Path: "/run/nvidia/nvidia-driver.pid"}
		}
		i.lockFile = ""
		return nil
	})
}

// The methods of the storage hold the status file and check each change.
func (i *instance) Load() (st status.Snapshot, err error) {
	err = i.do("read status", func() error {
		if i.saved == nil {
			return fs.ErrNotExist
		}
		st = *i.saved
		return nil
	})
	return st, err
}

func (i *instance) Save(st status.Snapshot) error {
	return i.do("write "+string(st.State), func() error {
		i.note(&st, i.disturbed)
		i.served = i.served || st.Ready
		i.saved = &st
		return nil
	})
}

func (i *instance) Remove() error {
	return i.do("remove status", func() error {
		i.note(nil, i.disturbed)
		i.saved = nil
		return nil
	})
}
