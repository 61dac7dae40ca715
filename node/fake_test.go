package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/build"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
)

// world is a node that keeps the kernel's rules: a module loads once and only on what it needs, is refused while it has
// users, and mounts stack. Instances come and go; the world stays.
type world struct {
	mu      sync.Mutex
	dir     string // real files: /run/nvidia, module files
	modules map[string]kmod.Module
	params  map[string][]string
	flavour string
	layers  []string // versions of the mounted roots, lowest first
	nodes   []devices.Node
	users   []kmod.Holder // processes that hold nvidia open
	locked  bool
	daemons int
	cache   map[string]bool // versions that need no compiling
	broken  map[string]bool // versions whose nvidia.ko the kernel refuses
	sick    bool            // the GPU does not come up
	ops     []string
	lives   int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), modules: map[string]kmod.Module{}, params: map[string][]string{}, cache: map[string]bool{}, broken: map[string]bool{}}
	if err := os.MkdirAll(filepath.Join(w.dir, "nvidia"), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// stands is what each module stands on.
var stands = map[string]string{"nvidia_uvm": "nvidia", "nvidia_modeset": "nvidia", "nvidia_drm": "nvidia_modeset"}

// instance is one process in the world. hook sees every operation before it happens: it may fail it, or end the process.
type instance struct {
	*world
	version string
	hook    func(op string) error
	dead    bool
	holds   bool
	daemon  bool
}

var errDead = errors.New("the process is dead")

// do runs an operation of the instance under the world's lock.
func (i *instance) do(op string, f func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return errDead
	}
	i.ops = append(i.ops, op)
	if i.hook != nil {
		if err := i.hook(op); err != nil {
			return err
		}
	}
	if i.dead {
		return errDead
	}
	return f()
}

func (i *instance) Module(name string) (m kmod.Module, err error) {
	err = i.do("module "+name, func() error {
		live, ok := i.modules[name]
		if !ok {
			return fs.ErrNotExist
		}
		m = i.live(live)
		return nil
	})
	return m, err
}

// live adds what changes: holders and the count.
func (w *world) live(m kmod.Module) kmod.Module {
	m.Holders = nil
	for other, on := range stands {
		if _, loaded := w.modules[other]; loaded && on == m.Name {
			m.Holders = append(m.Holders, other)
		}
	}
	slices.Sort(m.Holders)
	m.Refs = len(m.Holders)
	if m.Name == "nvidia" {
		m.Refs += 3*len(w.users) + w.daemons
	}
	return m
}

func (i *instance) Loaded() (all []kmod.Module, err error) {
	err = i.do("loaded", func() error {
		for _, m := range i.modules {
			all = append(all, i.live(m))
		}
		return nil
	})
	return all, err
}

func (i *instance) Stack(name string) (stack []kmod.Module, err error) {
	err = i.do("stack", func() error {
		if _, ok := i.modules[name]; !ok {
			return fs.ErrNotExist
		}
		for _, n := range []string{"nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"} {
			if m, ok := i.modules[n]; ok {
				stack = append(stack, i.live(m))
			}
		}
		return nil
	})
	return stack, err
}

func (i *instance) Flavour() (f string, err error) {
	err = i.do("flavour", func() error { f = i.flavour; return nil })
	return f, err
}

func (i *instance) Params(string) (map[string]string, error) { return map[string]string{}, nil }

func (i *instance) Insert(_ context.Context, path string, params []string) error {
	name := strings.TrimSuffix(filepath.Base(path), ".ko")
	version := filepath.Base(filepath.Dir(path))
	return i.do("insert "+name, func() error {
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if _, ok := i.modules[name]; ok {
			return kmod.ErrLoaded
		}
		if on := stands[name]; on != "" && i.modules[on].Version != version {
			return &kmod.RefusedError{Module: name, Errno: unix.EINVAL}
		}
		if i.broken[version] && name == "nvidia" {
			return &kmod.RefusedError{Module: name, Errno: unix.ENODEV}
		}
		i.modules[name] = kmod.Module{Name: name, Version: version, SrcVersion: srcversion(name, version), State: "live"}
		i.params[name] = params
		i.flavour = driverinfo.Proprietary
		return nil
	})
}

func srcversion(name, version string) string { return strings.ToUpper(name) + version }

func (i *instance) InsertInTree(context.Context, ...string) ([]string, error) {
	return nil, i.do("in-tree", func() error { return nil })
}

func (i *instance) Delete(_ context.Context, name string) error {
	return i.do("delete "+name, func() error {
		m, ok := i.modules[name]
		switch {
		case !ok:
			return fs.ErrNotExist
		case i.live(m).Refs > 0:
			return kmod.ErrInUse
		}
		delete(i.modules, name)
		return nil
	})
}

func (i *instance) Holders(_ context.Context, except func(int) bool) (out []kmod.Holder, err error) {
	err = i.do("holders", func() error {
		for _, h := range i.users {
			if !except(h.PID) {
				out = append(out, h)
			}
		}
		return nil
	})
	return out, err
}

func (i *instance) Stage(context.Context) (string, error) {
	return "/roots/" + i.version, i.do("stage", func() error { return nil })
}

func (i *instance) AddModules(context.Context, []build.File) error {
	return i.do("add modules", func() error { return nil })
}

func (i *instance) Mount(context.Context) error {
	return i.MountOld(context.Background(), "/roots/"+i.version)
}

func (i *instance) MountOld(_ context.Context, dir string) error {
	return i.do("mount", func() error {
		if len(i.layers) > 0 {
			return fmt.Errorf("something is mounted there: %v", i.layers)
		}
		i.layers = append(i.layers, filepath.Base(dir))
		return nil
	})
}

func (i *instance) Unmount(context.Context) error {
	return i.do("unmount", func() error { i.layers = nil; return nil })
}

func (i *instance) Mounted() (n int, err error) {
	err = i.do("mounted", func() error { n = len(i.layers); return nil })
	return n, err
}

func (i *instance) Adopt(context.Context) (ok bool, why string) {
	err := i.do("adopt", func() error { ok = len(i.layers) == 1 && i.layers[0] == i.version; return nil })
	return ok && err == nil, "it is another one"
}

func (i *instance) Firmware() (func() error, error) {
	return func() error { return i.do("firmware back", func() error { return nil }) }, i.do("firmware", func() error { return nil })
}

func (i *instance) set() *build.Set {
	set := &build.Set{}
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
		path := filepath.Join(i.dir, i.version, underscores(name)+".ko")
		content := []byte(name + i.version)
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		_ = os.WriteFile(path, content, 0o600)
		sum := sha256.Sum256(content)
		set.Modules = append(set.Modules, build.File{Name: name, Path: path, SHA256: hex.EncodeToString(sum[:]),
			Info: kmod.Info{Name: underscores(name), Version: i.version, SrcVersion: srcversion(underscores(name), i.version)}})
	}
	return set
}

func (i *instance) Find(context.Context, Want) (set *build.Set, source string, err error) {
	err = i.do("find", func() error {
		if !i.cache[i.version] {
			return build.ErrMiss
		}
		set, source = i.set(), "cache"
		return nil
	})
	return set, source, err
}

func (i *instance) Ready(context.Context, Want) error {
	return i.do("ready", func() error { return nil })
}

func (i *instance) Compile(ctx context.Context, _ Want) (set *build.Set, err error) {
	err = i.do("compile", func() error { set = i.set(); return nil })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return set, err
}

func (i *instance) Keep(_ context.Context, set *build.Set) (*build.Set, error) {
	return set, i.do("keep", func() error { i.cache[i.version] = true; return nil })
}

func (i *instance) Start(context.Context) (running, error) {
	err := i.do("start daemons", func() error { i.world.daemons, i.daemon = 1, true; return nil })
	return &fakeDaemons{i}, err
}

type fakeDaemons struct{ i *instance }

func (d *fakeDaemons) States() []daemons.State {
	return []daemons.State{{Name: "nvidia-persistenced", PID: 7, Running: true, Ready: true}}
}
func (d *fakeDaemons) Changed() <-chan struct{} { return nil }
func (d *fakeDaemons) PIDs() []int              { return []int{7} }
func (d *fakeDaemons) Stop(context.Context) error {
	return d.i.do("stop daemons", func() error { d.i.world.daemons, d.i.daemon = 0, false; return nil })
}

func (i *instance) GPUs() ([]devices.GPU, error) {
	return []devices.GPU{{Address: "0000:05:00.0", Vendor: 0x10de, Device: 0x1eb8, Driver: "nvidia"}}, nil
}
func (i *instance) Mellanox() (bool, error)                               { return false, nil }
func (i *instance) Options() (kmod.Options, error)                        { return kmod.Options{}, nil }
func (i *instance) Reasons(string) []string                               { return []string{"NVRM: RmInitAdapter failed"} }
func (i *instance) Preflight(context.Context, Question) []preflight.Check { return nil }
func (i *instance) RemoveNodes([]devices.Node) error {
	return i.do("remove nodes", func() error { i.nodes = nil; return nil })
}

// The method of hardware and that of kernel have the same name; the former is this.
type fakeHardware struct{ *instance }

func (fakeHardware) Flavour([]devices.GPU, string) (string, string, error) {
	return driverinfo.Proprietary, "the only one", nil
}

func (i *instance) CreateNodes(context.Context) (made []devices.Node, err error) {
	err = i.do("create nodes", func() error {
		made = []devices.Node{{Path: "/dev/nvidiactl", Major: 195, Minor: 255, Made: true}}
		i.nodes = made
		return nil
	})
	return made, err
}

func (i *instance) Ask(context.Context) (a probe.Answer, err error) {
	err = i.do("ask", func() error {
		a.Driver = i.modules["nvidia"].Version
		if !i.sick {
			a.Devices = []probe.Device{{PCI: "00000000:05:00.0", Name: "Tesla T4"}}
		}
		return nil
	})
	return a, err
}

func (i *instance) Acquire(context.Context) (held, error) {
	err := i.do("lock", func() error {
		if i.locked {
			return errors.New("held")
		}
		i.locked, i.holds = true, true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (i *instance) Release() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holds && !i.dead {
		i.locked, i.holds = false, false
	}
	return nil
}

func (i *instance) Lost() error   { return nil }
func (i *instance) Retake() error { return nil }
func (i *instance) Prune() error  { return nil }

// kill ends the process where it stands: the kernel frees its lock and its daemons go with its container. Called with the lock.
func (i *instance) kill() {
	i.dead = true
	if i.holds {
		i.locked = false
	}
	if i.daemon {
		i.world.daemons = 0
	}
}
