package node

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// found supplies a set of modules of the image, or none.
type found struct {
	Supplier
	set *kbuild.Set
}

func (f found) Find(context.Context, Want) (*kbuild.Set, string, error) {
	if f.set == nil {
		return nil, "", kbuild.ErrMiss
	}
	return f.set, status.FromImage, nil
}

// TestNarrow checks that a set which lacks modules that its builder left out is loaded without them, unless
// they were requested.
func TestNarrow(t *testing.T) {
	t.Parallel()
	set := func(names ...string) *kbuild.Set {
		s := &kbuild.Set{}
		for _, name := range names {
			s.Modules = append(s.Modules, kbuild.File{Name: name, Info: kmod.Info{Name: kmod.ModuleName(name)}})
		}
		return s
	}
	for _, c := range []struct {
		name string
		set  *kbuild.Set
		cfg  config.Config
		want string
		says string
		err  string
	}{
		{"all", set("nvidia", "nvidia-uvm", "nvidia-modeset"), config.Config{}, "nvidia nvidia-uvm nvidia-modeset", "", ""},
		{"compute", set("nvidia", "nvidia-uvm"), config.Config{}, "nvidia nvidia-uvm", "it is not loaded module=nvidia-modeset kernel=6.1.0-56-amd64", ""},
		{"drm", set("nvidia", "nvidia-uvm", "nvidia-modeset"), config.Config{DRM: true}, "", "", "have no nvidia-drm: use an image that was built with it"},
		{"drm without modeset", set("nvidia", "nvidia-uvm", "nvidia-drm"), config.Config{DRM: true}, "", "", "have no nvidia-modeset"},
		{"RDMA", set("nvidia", "nvidia-uvm", "nvidia-modeset"), config.Config{RDMA: true}, "nvidia nvidia-uvm nvidia-modeset", "warning: GPUDirect RDMA is asked for", ""},
		{"no uvm", set("nvidia"), config.Config{}, "", "", "has no nvidia-uvm"},
		{"nothing found", nil, config.Config{DRM: true}, "nvidia nvidia-uvm nvidia-modeset nvidia-drm", "", ""},
	} {
		var said logtest.Log
		n := &Node{
			Machine: Machine{Supplier: found{set: c.set}},
			Options: Options{Log: said.Logger(), Status: status.NewStore(status.Snapshot{}, nil, nil)},
			cfg:     c.cfg,
		}
		m, err := n.find(t.Context(), ModuleSet{Want: want(c.cfg, "", "open", "6.1.0-56-amd64", true)})
		if err == nil {
			err = m.checkParams("/drivers")
		}
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || c.cfg.DRM != errors.Is(err, config.ErrConfig) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || strings.Join(m.Want.Modules, " ") != c.want || !strings.Contains(said.String(), c.says):
			t.Errorf("%s: %v, %v, %s", c.name, m.Want.Modules, err, &said)
		}
	}
}

// The error of a driver in use names the first of many holders.
func TestInUseError(t *testing.T) {
	t.Parallel()
	many := &modules.InUseError{}
	for pid := range 10 {
		many.Holders = append(many.Holders, kmod.Holder{PID: pid + 1, Command: "python3", Files: []string{"/dev/nvidia0"}})
	}
	assert.ErrorContains(t, many, "in use by pid 1 (python3)", "pid 8 ", "and 2 more. Stop these processes")
	assert.Equal(t, false, strings.Contains(many.Error(), "pid 9 "))
	assert.ErrorContains(t, &modules.InUseError{Module: "nvidia_uvm"}, "module nvidia_uvm has references", "hostPID")
}

// adoptKernel has modules and the parameters that they show.
type adoptKernel struct {
	Kernel
	modules map[string]kmod.Module
	params  map[string]map[string]string
	flavour error
}

func (k adoptKernel) Module(name string) (kmod.Module, error) {
	m, ok := k.modules[name]
	if !ok {
		return m, fs.ErrNotExist
	}
	return m, nil
}
func (k adoptKernel) Flavour() (string, error) { return "open", k.flavour }
func (k adoptKernel) Params(name string) (map[string]string, error) {
	if p, ok := k.params[name]; ok {
		return p, nil
	}
	return nil, fs.ErrNotExist
}

// compared are modules to load, and what an earlier instance loaded.
type compared struct {
	ModuleSet
	recorded []status.Module
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const driver = "535.261.03"
	names := []string{"nvidia", "nvidia_uvm", "nvidia_modeset"}
	var files []kbuild.File
	loaded := map[string]kmod.Module{}
	for _, name := range names {
		files = append(files, kbuild.File{Name: name, Info: kmod.Info{SrcVersion: name + "-1"}})
		loaded[name] = kmod.Module{Name: name, Version: driver, SrcVersion: name + "-1"}
	}
	unreadable := errors.New("unreadable")
	for name, c := range map[string]struct {
		edit func(k *adoptKernel, w *compared)
		want verdict
		err  error
	}{
		"all agree":      {func(*adoptKernel, *compared) {}, verdict{Adopted: true}, nil},
		"nothing loaded": {func(k *adoptKernel, _ *compared) { clear(k.modules) }, verdict{}, nil},
		"two missing": {func(k *adoptKernel, _ *compared) {
			delete(k.modules, "nvidia_uvm")
			delete(k.modules, "nvidia_modeset")
		},
			verdict{Adopted: true, Reasons: []string{"nvidia_uvm is not loaded", "nvidia_modeset is not loaded"}}, nil},
		"one missing, one differs": {func(k *adoptKernel, _ *compared) {
			delete(k.modules, "nvidia_modeset")
			k.modules["nvidia_uvm"] = kmod.Module{Name: "nvidia_uvm", Version: driver, SrcVersion: "2"}
		}, verdict{Adopted: true, Differing: names[1:2], Reasons: []string{
			"another build of nvidia_uvm is loaded (srcversion 2, ours has nvidia_uvm-1)", "nvidia_modeset is not loaded"}}, nil},
		"nvidia differs": {func(k *adoptKernel, _ *compared) {
			delete(k.modules, "nvidia_uvm")
			k.modules["nvidia"] = kmod.Module{Name: "nvidia", Version: "470.256.02"}
		}, verdict{Reasons: []string{"nvidia 470.256.02 is loaded, wanted is 535.261.03"}}, nil},
		"flavour": {func(_ *adoptKernel, w *compared) { w.Want.Flavour = "proprietary" }, verdict{Reasons: []string{"the open flavour is loaded, wanted is proprietary"}}, nil},
		"unknown": {func(_ *adoptKernel, w *compared) { w.Set.Modules = w.Set.Modules[:2] },
			verdict{Adopted: true, Differing: names[2:], Reasons: []string{"nvidia_modeset was loaded by another program: there is no record of it and no file to compare with"}}, nil},
		"recorded parameters": {func(_ *adoptKernel, w *compared) {
			w.recorded = []status.Module{{Name: "nvidia_uvm", SrcVersion: "nvidia_uvm-1", Params: []string{"a=1"}}}
		}, verdict{Adopted: true, Differing: names[1:2], Reasons: []string{`nvidia_uvm was loaded with parameters ["a=1"], wanted are []`}}, nil},
		"live parameters": {func(k *adoptKernel, w *compared) {
			k.params, w.Options = map[string]map[string]string{"nvidia": {"a": "2"}}, kmod.Options{"nvidia": {"a=1"}}
		}, verdict{Reasons: []string{"nvidia is loaded with other parameters: a is 2, wanted 1"}}, nil},
		"nvidia-uvm of 470 has no version": {func(k *adoptKernel, _ *compared) {
			k.modules["nvidia_uvm"] = kmod.Module{Name: "nvidia_uvm", SrcVersion: "nvidia_uvm-1"}
		}, verdict{Adopted: true}, nil},
		"no version of nvidia": {func(k *adoptKernel, _ *compared) { k.modules["nvidia"] = kmod.Module{Name: "nvidia"} },
			verdict{Reasons: []string{"nvidia  is loaded, wanted is 535.261.03"}}, nil},
		"no answer": {func(k *adoptKernel, _ *compared) { k.flavour = unreadable }, verdict{}, unreadable},
	} {
		k, w := adoptKernel{modules: maps.Clone(loaded)}, compared{}
		w.Want = Want{Driver: driver, Flavour: "open", Modules: names}
		w.Set = &kbuild.Set{Modules: files}
		c.edit(&k, &w)
		got, err := w.compare(k, w.recorded)
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		assert.Equalf(t, name == "all agree" || name == "nvidia-uvm of 470 has no version", got.Whole(), "%s: whole", name)
	}
}

// While the record of the driver cannot be read, all that is on the host may be needed.
func TestNeededOfUnknown(t *testing.T) {
	run := t.TempDir()
	n := &Node{cfg: config.Config{StateDir: "/state"}}
	n.Status = status.NewStore(status.Snapshot{}, status.Folder(run), logtest.New(t))
	n.Status.Predecessor()
	assert.Same(t, []string{"/root"}, n.needed(nil, status.Driver{RootDir: "/root"}))
	testfile.Write(t, run+"/driver-status.json", "{")
	n.Status.Predecessor()
	assert.Same(t, []string{"/state"}, n.needed(nil, status.Driver{RootDir: "/root"}))
}
