package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/preflight"
)

// A set fits when driver, flavour, release and recipe are the same and it was not compiled for another build of that release.
func TestFindInTheCache(t *testing.T) {
	t.Parallel()
	running, err := kernelRelease()
	if err != nil {
		t.Fatal(err)
	}
	const elsewhere = "6.1.0-99-elsewhere"
	ours, err := kbuild.KernelID(running, kbuild.Headers{}, "", "")
	hasID := err == nil
	good := kbuild.Key{Driver: v535, Flavour: "open", Release: running, Arch: "amd64", Kernel: ours, Compiler: "gcc 12.2.0", Recipe: kbuild.Recipe}
	for _, test := range []struct {
		name    string
		release string
		edit    func(k *kbuild.Key)
		found   bool
	}{
		{"this kernel", running, func(*kbuild.Key) {}, true},
		{"another compiler", running, func(k *kbuild.Key) { k.Compiler = "gcc 14.2.0" }, true},
		{"known by headers only", running, func(k *kbuild.Key) { k.Kernel = "headers 12" }, true},
		{"another build of the release", running, func(k *kbuild.Key) { k.Kernel = "build-id 00" }, !hasID},
		{"another kernel's set, asked for by that kernel", elsewhere, func(k *kbuild.Key) { k.Release, k.Kernel = elsewhere, "build-id 00" }, true},
		{"another release", running, func(k *kbuild.Key) { k.Release = elsewhere }, false},
		{"another driver", running, func(k *kbuild.Key) { k.Driver = v470 }, false},
		{"another flavour", running, func(k *kbuild.Key) { k.Flavour = "proprietary" }, false},
		{"another recipe", running, func(k *kbuild.Key) { k.Recipe++ }, false},
		{"other patches", running, func(k *kbuild.Key) { k.Patches = []string{"ofa_kernel-12"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &supply{cfg: Config{StateDir: t.TempDir()}, info: driverinfo.Info{Driver: v535, Arch: "amd64"}, say: t.Logf}
			set := fakeSet(t, good)
			test.edit(&set.Key)
			if set.Key.Kernel == "" {
				set.Key.Kernel = "headers 12" // this kernel does not show its build id
			}
			if _, err := s.Keep(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			got, source, err := s.Find(t.Context(), Want{Driver: v535, Flavour: "open", Release: test.release})
			switch {
			case test.found && (err != nil || source != "cache" || len(got.Modules) != 1):
				t.Errorf("%v, from %q, %v", got, source, err)
			case !test.found && !errors.Is(err, kbuild.ErrMiss):
				t.Errorf("found %v, %v", got, err)
			}
		})
	}
}

func fakeSet(t *testing.T, k kbuild.Key) *kbuild.Set {
	t.Helper()
	set, err := (&world{dir: t.TempDir()}).files("scratch", v535)
	if err != nil {
		t.Fatal(err)
	}
	set.Key, set.Modules = k, set.Modules[:1]
	info, err := os.Stat(set.Modules[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	set.Modules[0].Size = info.Size()
	return set
}

// A damaged entry is moved aside: the modules are compiled again.
func TestFindCorrupt(t *testing.T) {
	t.Parallel()
	s := &supply{cfg: Config{StateDir: t.TempDir()}, info: driverinfo.Info{Driver: v535}, say: t.Logf}
	set, err := s.Keep(t.Context(), fakeSet(t, kbuild.Key{Driver: v535, Flavour: "open", Release: "r", Arch: "amd64", Kernel: "headers 1", Recipe: kbuild.Recipe}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(set.Modules[0].Path, []byte("xxxxxxxxxxxxxxxx"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Want{Driver: v535, Flavour: "open", Release: "r"}
	for range 2 {
		if found, _, err := s.Find(t.Context(), want); !errors.Is(err, kbuild.ErrMiss) && !errors.As(err, new(*kbuild.CorruptError)) {
			t.Errorf("%v, %v", found, err)
		}
	}
}

func TestSupplyPlaces(t *testing.T) {
	t.Parallel()
	s := &supply{cfg: Config{StateDir: t.TempDir()}, info: driverinfo.Info{Driver: v535}, say: t.Logf}
	if a, b := s.sources("proprietary"), s.sources("open"); a != "/usr/src/nvidia-535.261.03/kernel" || b != "/usr/src/nvidia-535.261.03/kernel-open" {
		t.Errorf("%s, %s", a, b)
	}
	log, err := s.log(Want{Driver: v535, Flavour: "open", Release: "r"})
	if err != nil || filepath.Base(log) != "compile-535.261.03-open-r.log" {
		t.Errorf("%s, %v", log, err)
	}
	progress(t.Logf)(1, 2, "x")
	var none *kbuild.NoHeadersError
	s.info.Toolchain = true
	if _, err := s.Compile(t.Context(), Want{Driver: v535, Flavour: "open", Release: "0.0.0-none"}); !errors.As(err, &none) {
		t.Errorf("no headers: %v", err)
	}
}

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	set := fakeSet(t, kbuild.Key{})
	m := []LoadedModule{{Name: "nvidia", File: set.Modules[0].Path, SHA256: set.Modules[0].SHA256}}
	if err := checkFiles(m); err != nil {
		t.Error(err)
	}
	m[0].SHA256 = "00"
	if err := checkFiles(m); err == nil || !strings.Contains(err.Error(), "it had 00 when it was verified") {
		t.Errorf("%v", err)
	}
	m[0].File = "/nonexistent"
	if err := checkFiles(m); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestConfigModules(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"nvidia nvidia-uvm nvidia-modeset":                           {RDMA: false},
		"nvidia nvidia-uvm nvidia-modeset nvidia-drm":                {DRM: true},
		"nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem": {DRM: true, RDMA: true},
	} {
		if got := strings.Join(c.modules(true), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (Config{RDMA: true}).modules(false); len(got) != 3 {
		t.Errorf("without a Mellanox device: %v", got)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	if err := Defaults().Check(); err != nil {
		t.Error(err)
	}
	bad := Defaults()
	bad.ModuleType, bad.OnBusy, bad.GPUInit, bad.MaxThreads, bad.Grace, bad.Run, bad.StateDir = "closed", "", "x", -1, 0, "run", ""
	err := bad.Check()
	for _, want := range []string{"KERNEL_MODULE_TYPE", "--on-busy", "--gpu-init", "--max-threads", "--grace", "--run-dir", "--state-dir"} {
		if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

// The verbs preflight and compile touch nothing that is loaded, and write no status.
func TestVerbs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.leave(v470)
		saved := w.saved
		_, n := w.begin(life{version: v535})
		checks, err := n.Preflight(t.Context())
		if err != nil || len(checks) != 1 || checks[0].Name != preflight.Headers || n.prev != nil {
			t.Errorf("%v, %v, %v", checks, n.prev, err)
		}
		for _, want := range []string{compiled, "cache"} {
			_, n := w.begin(life{version: v535})
			n.cfg.DRM = true
			set, source, err := n.Compile(context.Background(), "")
			if err != nil || source != want || len(set.Modules) != 3 {
				t.Errorf("%v from %s, %v; want %s", set, source, err, want)
			}
		}
		if w.saved != saved || w.outcome() != whole {
			t.Errorf("%s, status %+v", w.outcome(), w.saved)
		}
	})
}

// nouveau is unloaded only when that was asked for, with what stands on it, and never by force.
func TestUnloadNouveau(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nouveau := func() { w.modules["nouveau"] = kmod.Module{Name: "nouveau"} }
		nouveau()
		if e := w.run(life{version: v535}); e.err != nil || w.modules["nouveau"].Name == "" {
			t.Errorf("not asked for: %v", e.err)
		}
		yes := func(n *Node) { n.cfg.UnloadNouveau = true }
		if e := w.run(life{version: v535}, yes); e.err != nil || !e.served || w.modules["nouveau"].Name != "" {
			t.Errorf("asked for: %v", e.err)
		}
		nouveau()
		w.users = []kmod.Holder{{PID: 1, Command: "Xorg", Files: []string{"nouveau"}}}
		if e := w.run(life{version: v535}, yes); !errors.Is(e.err, kmod.ErrInUse) || !strings.Contains(e.err.Error(), "unload nouveau") {
			t.Errorf("in use: %v", e.err)
		}
	})
}
