package scenarios

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/status"
)

// product is an image under test.
type product struct{ driver, system string }

// layoutOf runs driver-build for the product with further flags and returns the folder of the OCI layout, one
// for each name.
func (p product) layoutOf(t *testing.T, name string, flags ...string) string {
	t.Helper()
	dir := filepath.Join(workspace(t), "debian", name)
	args := []string{"ci/image", "--os", p.system, "--driver", p.driver, "--output", "oci:" + dir, "--progress", "plain"}
	require.Value(tool.Run(t.Context(), "../../..", nil, append(args, flags...)...))(t)
	return dir
}

var (
	d535 = product{"535.261.03", "debian12"}
	d470 = product{"470.256.02", "debian12"}
	d418 = product{"418.226.00", "debian11"}
)

func (p product) tag() string { return p.driver + "-" + p.system }

// making serializes the making of images and modules, which tests share. Tests of a package may run in
// parallel.
var making sync.Mutex

// layout builds the image with driver-build, unless that has been done, and returns the folder of its OCI
// layout.
func (p product) layout(t *testing.T) string {
	t.Helper()
	return p.layoutOf(t, p.tag())
}

// workspace returns the folder in which the real tier keeps images.
func workspace(t *testing.T) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("DRIVER_E2E_DIR"), filepath.Join(os.TempDir(), "driver-e2e"))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// image returns the disk of the image.
func (p product) image(t *testing.T) guest.Image {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	return lab.ImageDisk(t, p.layout(t))
}

// modules returns a folder that holds a module cache (kbuild.Cache) with the product's modules for a kernel:
// compiled by its own image, or taken from the thin image for the kernel if tests need that one anyway.
func (p product) modules(t *testing.T, kernel *lab.HostKernel) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	state := filepath.Join(lab.CacheDir(t), "state-"+kernel.Release)
	match := func(k kbuild.Key) bool {
		return k.Driver == p.driver && k.Flavour == closed && k.Release == kernel.Release && k.Method == kbuild.Method
	}
	cache := kbuild.Cache{Dir: filepath.Join(state, "modules")}
	if set, err := cache.Find(t.Context(), match); err == nil {
		return only(t, set)
	}
	begin := time.Now()
	if p == d535 && kernel.System == p.system {
		takeModules(t, kernel, state)
	} else if out, err := p.compile(t, kernel, state); err != nil {
		t.Fatalf("compile %s for %s: %v\n%s", p.tag(), kernel.Release, err, out)
	}
	t.Logf("compiled %s for %s in %s", p.driver, kernel.Release, time.Since(begin).Round(time.Second))
	set, err := cache.Find(t.Context(), match)
	require.NoErrorf(t, err, "the compile left nothing in its cache")
	return only(t, set)
}

// compile runs the image's own `nvidia-driver compile`.
func (p product) compile(t *testing.T, kernel *lab.HostKernel, state string) ([]byte, error) {
	t.Helper()
	return p.run(t, kernel, state, "compile", "--kernel", kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false")
}

// run runs the image's own `nvidia-driver` in a chroot on this machine, with a folder for its cache. The test
// has locked making.
func (p product) run(t *testing.T, kernel *lab.HostKernel, state string, args ...string) (out []byte, err error) {
	t.Helper()
	return p.runIn(t, kernel, state, func(string) {}, args...)
}

// runIn is run in a root that prepare may change.
func (p product) runIn(t *testing.T, kernel *lab.HostKernel, state string, prepare func(root string), args ...string) ([]byte, error) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	ocitest.Unpack(t, ocitest.Open(t, p.layout(t)), root)
	prepare(root)
	for _, m := range []struct{ from, to string }{{kernel.Root, "host"}, {"/proc", "proc"}, {"/dev", "dev"}, {"/sys", "sys"}, {state, "var/lib/nvidia-driver"}} {
		to := filepath.Join(root, m.to)
		for _, dir := range []string{m.from, to} {
			require.NoError(t, os.MkdirAll(dir, 0o755))
		}
		require.NoErrorf(t, syscall.Mount(m.from, to, "", syscall.MS_BIND, ""), "bind %s", m.from)
		defer func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) }()
	}
	cmd := exec.CommandContext(t.Context(), "chroot", append([]string{root, "nvidia-driver"}, args...)...) //nolint:gosec // the test's own words
	cmd.Env = append(os.Environ(), "PATH="+recipe.DefaultPath)                                             // the image's, not this machine's
	return cmd.CombinedOutput()
}

// only returns a folder that shows one set of a cache as a cache of its own, by hard links.
func only(t *testing.T, set *kbuild.Set) string {
	t.Helper()
	dir, err := os.MkdirTemp(lab.CacheDir(t), "only-*") //nolint:usetesting // hard links need the same file system
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tool.Must(t, "cp", "-al", set.Dir, dir)
	return dir
}

// stage describes the guest of a scenario at its start.
type stage struct {
	kernel   string // "debian12", the default, or "debian11"
	gpus     []gpu.Model
	products map[string]product // name of the image in the guest -> product
	cached   []product          // whose modules are in the guest's cache from the beginning
	edit     func(*lab.Config)
	disks    map[string]guest.Image // further images, by their names in the guest
	boot     *lab.HostKernel        // instead of the newest of the kernel's system
	alone    bool                   // it measures time, so no other guest runs meanwhile; or the test has called t.Parallel
}

const closed = "proprietary" // the flavour of all modules here

// start boots the guest. Modules are in /var/lib/nvidia-driver/modules, as an earlier start would have left
// them.
func (s stage) start(t *testing.T) *lab.Guest {
	t.Helper()
	lab.Gate(t)
	if !s.alone {
		t.Parallel()
	}
	s.kernel = cmp.Or(s.kernel, "debian12")
	if s.gpus == nil {
		s.gpus = []gpu.Model{gpu.T4}
	}
	cfg := lab.Config{Kernel: lab.Kernel(t, s.kernel), GPUs: s.gpus, Images: map[string]guest.Image{}, Disks: map[string]string{}}
	for name, p := range s.products {
		cfg.Images[name] = p.image(t)
	}
	maps.Copy(cfg.Images, s.disks)
	if s.boot != nil {
		cfg.Kernel = s.boot
	}
	for i, p := range s.cached {
		cfg.Disks["/seed/"+string(rune('a'+i))] = lab.TreeDisk(t, p.modules(t, cfg.Kernel))
	}
	if s.edit != nil {
		s.edit(&cfg)
	}
	g := lab.Start(t, cfg)
	if len(s.cached) > 0 {
		g.Sh("mkdir -p /var/lib/nvidia-driver/modules; for d in /seed/*; do cp -a $d/. /var/lib/nvidia-driver/modules/; done")
	}
	return g
}

// driver returns a pod of the driver's DaemonSet with the lab's settings. The fake GPU never initialises, so
// a GPU that does not come up is a warning. nvidia-persistenced, which would have no state to keep, does not
// run (Test13 has it).
func driver(image string, env ...string) lab.Container {
	return lab.DriverPod(image, append([]string{"DRIVER_GPU_INIT=warn", "DRIVER_PERSISTENCE=false"}, env...)...)
}

// ready starts a container and waits until the driver serves.
func ready(t *testing.T, g *lab.Guest, c lab.Container) *lab.Process {
	t.Helper()
	p := g.Start(c)
	p.WaitLine(logtest.Ready, 3*time.Minute)
	return p
}

// stops sends SIGTERM and requires this exit code.
func stops(t *testing.T, p *lab.Process, code int) string {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	return ends(t, p, code, time.Minute)
}

// ends waits for the end of a process, which must have this exit code.
func ends(t *testing.T, p *lab.Process, code int, limit time.Duration) string {
	t.Helper()
	got, out := p.Wait(limit)
	if got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, out)
	}
	return out
}

// statusOf reads the status file in the guest; the zero status if the file is missing.
func statusOf(t *testing.T, g *lab.Guest) status.Snapshot {
	t.Helper()
	var st status.Snapshot
	const path = "/run/nvidia/driver-status.json"
	if !g.Exists(path) {
		return st
	}
	require.NoErrorf(t, json.Unmarshal([]byte(g.Read(path)), &st), "%s", path)
	return st
}

// keep writes a text to the folder DRIVER_E2E_KEEP, if that is set, for people to look at and
// for ci/pictures.
func keep(t *testing.T, name, text string) {
	t.Helper()
	if dir := os.Getenv("DRIVER_E2E_KEEP"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

// contains reports an error for each expression that the text does not match.
func contains(t *testing.T, text string, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if !regexp.MustCompile(e).MatchString(text) {
			t.Errorf("no match of %q in:\n%s", e, text)
		}
	}
}

// snapshot is the state on the host that a driver may change.
type snapshot struct {
	modules, mounts, run, dev, firmware string
}

func look(g *lab.Guest) snapshot {
	return snapshot{
		modules:  strings.Join(g.Modules(), " "),
		mounts:   g.Sh("cut -d' ' -f5 /proc/1/mountinfo | grep ^/run/nvidia | sort"), // what a stop puts up again comes last
		run:      g.Sh("cd /run/nvidia 2>/dev/null && find . -xdev -type f -o -xdev -type s | sort || true"),
		dev:      g.Sh("ls -d /dev/nvidia* /dev/char/19[0-9]:* /dev/char/2[34]*:* 2>/dev/null || true"),
		firmware: g.Sh("cat /sys/module/firmware_class/parameters/path"),
	}
}

// withoutLock leaves the lock's files out. They stay for ever: a lock whose file is removed locks nothing.
func (s snapshot) withoutLock() snapshot {
	s.run = strings.TrimSpace(strings.ReplaceAll(s.run, "./driver-entrypoint.lock", ""))
	return s
}

// roots returns the number of mounts at the driver root itself.
func roots(t *testing.T, g *lab.Guest) int {
	t.Helper()
	return number(t, g, "cut -d' ' -f5 /proc/1/mountinfo | grep -cx /run/nvidia/driver || true")
}

// driverLoaded returns the version that is loaded, "" for none.
func driverLoaded(g *lab.Guest) string {
	if !g.Exists("/sys/module/nvidia/version") {
		return ""
	}
	return strings.TrimSpace(g.Read("/sys/module/nvidia/version"))
}

func number(t *testing.T, g *lab.Guest, script string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(g.Sh(script)))
	require.NoErrorf(t, err, "%s", script)
	return n
}
