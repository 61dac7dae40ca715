package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// world is a simulated node that enforces the kernel's rules: a module loads once and only on the modules
// that it needs, is refused while it has users, and mounts stack. Instances come and go; the world stays. Its
// time is that of a synctest bubble.
type world struct {
	mu       sync.Mutex
	dir      string // real files: markers, modules
	modules  map[string]kmod.Module
	params   map[string][]string
	layers   []string // mounts at the driver root, lowest first: names of staged roots, or "foreign"
	nodes    []devices.Node
	users    []kmod.Holder // processes that have device files open
	firmware string        // the kernel's search path
	locked   bool
	lockFile string // "", "gone" or "stolen"
	saved    *status.Snapshot
	cache    map[string]bool // versions that need no compiling
	running  int             // daemons that run and hold nvidia open

	broken       map[string]bool // versions whose nvidia.ko the kernel refuses
	sick         bool            // the GPU does not come up
	licence      *probe.Licence  // what the GPU says about its vGPU licence
	fabric       *probe.Fabric   // what the GPU says about its NVLink fabric
	noDaemon     bool            // the daemon never starts
	daemonDown   bool            // the daemon has died
	preflightBad bool
	slowDisk     bool // to write a root to it takes minutes

	bus []devices.GPU
	log []string // of the kernel, since an instance read it

	brings string // version whose modules the host itself has loaded: no instance may touch them

	faster  string // srcversion of the nvidia that another program loads just before an instance does
	ignores bool   // the kernel ignores parameters
	fewer   bool   // sets lack nvidia-modeset

	direct  bool   // leave and everyOperation ask for companions
	build   string // of the companions in sets
	omitted string // companion that sets lack
	refused string // companion that the kernel refuses
	hangs   string // module in whose start the kernel hangs
	pinned  string // module with a reference that nothing explains

	leaks []string // modules that could not be removed; that is logged, and harms nobody
	wrong []string // violations of the rules
	lives int
	ops   []string
}

// memory returns a temporary folder in memory, if there is such a file system: thousands of lives write their
// markers.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "node-*") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// t4At is a GPU that is the driver's.
func t4At(address string) devices.GPU {
	return devices.GPU{Function: devices.Function{Address: address, Vendor: 0x10de, Device: 0x1eb8, Driver: "nvidia"}}
}

// hostModules are the modules of a host before the first driver.
var hostModules = []string{"i2c_core"}

func newWorld(t testing.TB, dir string) *world {
	t.Helper()
	w := emptyWorld(dir)
	require.NoError(t, os.MkdirAll(filepath.Join(w.dir, "nvidia"), 0o755))
	return w
}

// emptyWorld is a node with a GPU and without a driver.
func emptyWorld(dir string) *world {
	w := &world{dir: dir, modules: map[string]kmod.Module{}, params: map[string][]string{}, cache: map[string]bool{}, broken: map[string]bool{},
		bus: []devices.GPU{t4At("0000:05:00.0")}}
	for _, name := range hostModules {
		w.modules[name] = kmod.Module{Name: name, State: "live"}
	}
	return w
}

// bring loads a driver as the host's own system does.
func (w *world) bring(t testing.TB, version string) {
	t.Helper()
	for _, name := range []string{"ipmi_msghandler", "nvidia", "nvidia_uvm", "nvidia_modeset"} {
		require.NoError(t, w.insert(name, version, nil))
	}
	w.brings = version
}

// touch notes that an instance changes modules.
func (w *world) touch(op string) {
	if w.brings != "" {
		w.wrong = append(w.wrong, "the modules are the host's, and an instance does: "+op)
	}
}

// clone returns a world in the same state. It shares the files: only markers change, and every life writes
// them again.
func (w *world) clone(t testing.TB) *world {
	t.Helper()
	c := newWorld(t, w.dir)
	c.modules, c.params, c.cache, c.broken = maps.Clone(w.modules), maps.Clone(w.params), maps.Clone(w.cache), maps.Clone(w.broken)
	c.layers, c.nodes, c.users, c.leaks = slices.Clone(w.layers), slices.Clone(w.nodes), slices.Clone(w.users), slices.Clone(w.leaks)
	c.direct, c.build, c.brings = w.direct, w.build, w.brings
	c.firmware, c.lives, c.bus, c.log = w.firmware, w.lives, slices.Clone(w.bus), slices.Clone(w.log)
	if w.saved != nil {
		st := *w.saved
		c.saved = &st
	}
	return c
}

// left returns everything that a successor can find, as text.
func (w *world) left() string {
	var up *status.Driver
	if w.saved != nil {
		up = w.saved.Up
	}
	record, err := json.Marshal(up)
	return fmt.Sprint(slices.Sorted(maps.Keys(w.modules)), w.modules["nvidia"].Version, w.params, w.layers, w.nodes, w.cache, w.firmware, w.lockFile, w.leaks, string(record), err)
}

// stands says which modules each module needs. nvidia_fs needs none: it finds nvidia when it is used.
var stands = map[string][]string{
	"nvidia": {"ipmi_msghandler", "i2c_core"}, "nvidia_uvm": {"nvidia"}, "nvidia_modeset": {"nvidia"}, "nvidia_drm": {"nvidia_modeset"},
	"gdrdrv": {"nvidia"}, "nvidia_peermem": {"nvidia"}, "ipmi_devintf": {"ipmi_msghandler"},
}

// uses reports whether a module is another one, or needs it.
func uses(module, other string) bool {
	return module == other || slices.ContainsFunc(stands[module], func(on string) bool { return uses(on, other) })
}

// live adds the values that change: holders and the count.
func (w *world) live(m kmod.Module) kmod.Module {
	m.Holders = nil
	for other, on := range stands {
		if _, loaded := w.modules[other]; loaded && slices.Contains(on, m.Name) {
			m.Holders = append(m.Holders, other)
		}
	}
	slices.Sort(m.Holders)
	m.Refs = len(m.Holders)
	for _, u := range w.users {
		for _, file := range u.Files {
			if file == "/dev/nvidiactl" && m.Name == "nvidia" || file == "/dev/nvidia-uvm" && m.Name == "nvidia_uvm" {
				m.Refs += 3
			}
			if file == "/dev/nvidia-fs0" && m.Name == "nvidia" { // symbol_get of each function
				m.Refs += 6
			}
			if file == "/dev/nvidia-fs0" && m.Name == "nvidia_fs" || file == "/dev/gdrdrv" && m.Name == "gdrdrv" {
				m.Refs++
			}
		}
	}
	if m.Name == w.pinned {
		m.Refs++
	}
	if m.Name == "nouveau" {
		m.Refs = len(w.users)
	}
	if m.Name == "nvidia" {
		m.Refs += w.running
	}
	return m
}

func (w *world) insert(name, version string, params []string) error {
	if _, ok := w.modules[name]; ok {
		return kmod.ErrLoaded
	}
	for _, on := range stands[name] {
		under, ok := w.modules[on]
		if !ok || strings.HasPrefix(on, "nvidia") && strings.HasPrefix(name, "nvidia") && under.Version != version {
			return fmt.Errorf("%s: unknown symbol of %s", name, on)
		}
	}
	w.modules[name] = kmod.Module{Name: name, Version: version, SrcVersion: srcversion(name, version), State: "live"}
	w.params[name] = params
	return nil
}

func (w *world) delete(name string) error {
	m, ok := w.modules[name]
	switch {
	case !ok:
		return fs.ErrNotExist
	case w.live(m).Refs > 0:
		return kmod.ErrInUse
	}
	if above, ok := w.modules["nvidia_fs"]; ok && name == "nvidia" && above.Version != "2.17" { // another program's may come at any time
		w.wrong = append(w.wrong, "nvidia was unloaded below nvidia_fs")
	}
	delete(w.modules, name)
	return nil
}

func srcversion(name, version string) string { return strings.ToUpper(name) + version }

// files returns a driver's modules below a folder of the world, as real files.
func (w *world) files(folder, version string, extra ...string) (*kbuild.Set, error) {
	set := &kbuild.Set{Dir: filepath.Join(w.dir, folder, version)}
	if err := os.MkdirAll(set.Dir, 0o755); err != nil {
		return nil, err
	}
	names := []string{"nvidia", "nvidia-uvm", "nvidia-modeset"}
	if w.fewer {
		names = names[:2]
	}
	for _, name := range append(names, extra...) {
		if name == w.omitted {
			set.Omitted = []kbuild.Omission{{Module: name, Reason: "it does not compile: no such field"}}
			continue
		}
		content, module := []byte(name+version), kmod.ModuleName(name)
		if (status.Module{Name: module}).Companion() {
			content = append(content, w.build...)
		}
		path := filepath.Join(set.Dir, module+".ko")
		if old, err := os.ReadFile(path); err != nil || string(old) != string(content) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return nil, err
			}
		}
		sum := sha256.Sum256(content)
		set.Modules = append(set.Modules, kbuild.File{Name: name, Path: path, SHA256: hex.EncodeToString(sum[:]), Info: kmod.Info{
			Name: module, Version: version, SrcVersion: srcversion(module, strings.TrimPrefix(string(content), name)), Depends: []string{"i2c_core"}, Params: map[string]string{"NVreg_A": "int"},
		}})
	}
	return set, nil
}

// outcome is the state of a node when no instance runs.
type outcome string

// The allowed outcomes. A node may also be "half" after a SIGKILL, until the next instance has served.
const (
	// nothing loaded, nothing mounted, no device files, no search path, as before the first driver
	absent outcome = "absent"
	whole  outcome = "whole" // one version: all of its modules, exactly its root, device files, search path for firmware
)

// outcome judges the world, not what the instance reports.
func (w *world) outcome() outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge()
}

func (w *world) judge() outcome {
	var nvidia, others []string
	for _, name := range slices.Sorted(maps.Keys(w.modules)) {
		switch {
		case w.brings != "" && (w.modules[name].Version == w.brings || name == "ipmi_msghandler"):
		case strings.HasPrefix(name, "nvidia"):
			nvidia = append(nvidia, name)
		case !slices.Contains(hostModules, name) && !slices.Contains(w.leaks, name):
			others = append(others, name)
		}
	}
	nodes := len(w.nodes) > 0
	if len(nvidia) == 0 && len(w.layers) == 0 && !nodes && w.firmware == "" && len(others) == 0 {
		return absent
	}
	version := w.modules["nvidia"].Version
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset"} {
		if w.modules[name].Version != version || version == "" {
			return outcome(fmt.Sprintf("half: modules %v %v, roots %v, nodes %v, firmware %q", nvidia, others, w.layers, w.nodes, w.firmware))
		}
	}
	if len(w.layers) != 1 || versionOf(w.layers[0]) != version || !nodes || w.firmware == "" {
		return outcome(fmt.Sprintf("half: %s loaded, roots %v, nodes %v, firmware %q", version, w.layers, w.nodes, w.firmware))
	}
	return whole
}

// versionOf returns the driver of a staged root: "535.261.03-build".
func versionOf(root string) string {
	version, _, _ := strings.Cut(root, "-")
	return version
}

// transitions are the states that may follow each state in the status file. "" means no file. An instance
// that takes the node over begins with starting.
var transitions = map[status.State][]status.State{
	"":              {status.Starting},
	status.Starting: {status.Starting, status.Waiting, status.Serving, status.Degraded, status.Stopping},
	status.Waiting:  {status.Starting, status.Waiting, status.Stopping},
	status.Serving:  {status.Serving, status.Degraded, status.Stopping},
	status.Degraded: {status.Serving, status.Degraded, status.Stopping},
	status.Stopping: {status.Stopping, status.Detached, status.Failed, status.Restored, ""},
	status.Detached: {}, status.Failed: {}, status.Restored: {}, // they end a life
}

// note checks a change of the status against the table and against the world.
func (w *world) note(st *status.Snapshot, disturbed bool) {
	from, to := status.State(""), status.State("")
	if w.saved != nil {
		from = w.saved.State
	}
	if st != nil {
		to = st.State
	}
	successor := w.saved != nil && st != nil && st.Instance != w.saved.Instance
	if successor && to != status.Starting || !successor && !slices.Contains(transitions[from], to) {
		w.wrong = append(w.wrong, fmt.Sprintf("status goes from %q to %q", from, to))
	}
	if st == nil {
		if got := w.judge(); got != absent && !disturbed {
			w.wrong = append(w.wrong, "the status is removed, the node is "+string(got))
		}
		return
	}
	if st.Ready != (st.State == status.Serving) {
		w.wrong = append(w.wrong, fmt.Sprintf("ready %v in state %s", st.Ready, st.State))
	}
	if got := w.judge(); st.Ready && !disturbed && (got != whole || st.Up == nil || st.Up.Version != w.modules["nvidia"].Version) {
		w.wrong = append(w.wrong, fmt.Sprintf("serving while the node is %s, up %+v", got, st.Up))
	}
	if text := w.untrue(st.Up); st.Ready && !disturbed && text != "" {
		w.wrong = append(w.wrong, "serving with a record that is not true: "+text)
	}
	if st.Reason == "" && slices.Contains([]status.State{status.Waiting, status.Degraded, status.Detached, status.Restored, status.Failed}, st.State) {
		w.wrong = append(w.wrong, fmt.Sprintf("state %s without a reason", st.State))
	}
}

// untrue returns what a record says of the loaded modules that is not so.
func (w *world) untrue(d *status.Driver) string {
	if d == nil {
		return ""
	}
	for _, name := range []string{"nvidia", "nvidia_uvm", "nvidia_modeset"} {
		if !modules.Named(d.Modules, name) {
			return name + " is not in it"
		}
	}
	if len(w.layers) == 1 && w.layers[0] != filepath.Base(d.RootDir) {
		return fmt.Sprintf("the root is %s, recorded is %s", w.layers[0], d.RootDir)
	}
	if !d.Firmware {
		return "the firmware path is not in it"
	}
	for _, m := range d.Modules {
		if strings.HasPrefix(m.File, filepath.Join(w.dir, "container-")) {
			return m.Name + " is recorded as a file that ends with its container: " + m.File
		}
		if live := w.modules[m.Name]; live.SrcVersion != m.SrcVersion || !slices.Equal(w.params[m.Name], m.Params) {
			return fmt.Sprintf("%s is loaded with srcversion %q, parameters %q, recorded is %+v", m.Name, live.SrcVersion, w.params[m.Name], m)
		}
	}
	return ""
}

var errInjected = errors.New("injected failure")
