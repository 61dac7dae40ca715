package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// A set without what its builder left out is loaded without it, unless it was asked for.
func TestNarrow(t *testing.T) {
	t.Parallel()
	set := func(names ...string) *kbuild.Set {
		s := &kbuild.Set{}
		for _, name := range names {
			s.Modules = append(s.Modules, kbuild.File{Name: name, Info: kmod.Info{Name: underscores(name)}})
		}
		return s
	}
	for _, c := range []struct {
		name string
		set  *kbuild.Set
		cfg  Config
		want string
		says string
		err  string
	}{
		{"all", set("nvidia", "nvidia-uvm", "nvidia-modeset"), Config{}, "nvidia nvidia-uvm nvidia-modeset", "", ""},
		{"compute", set("nvidia", "nvidia-uvm"), Config{}, "nvidia nvidia-uvm", "have no nvidia-modeset: it is not loaded", ""},
		{"drm", set("nvidia", "nvidia-uvm", "nvidia-modeset"), Config{DRM: true}, "", "", "have no nvidia-drm: use an image that was built with it"},
		{"drm without modeset", set("nvidia", "nvidia-uvm", "nvidia-drm"), Config{DRM: true}, "", "", "have no nvidia-modeset"},
		{"RDMA", set("nvidia", "nvidia-uvm", "nvidia-modeset"), Config{RDMA: true}, "nvidia nvidia-uvm nvidia-modeset", "warning: GPUDirect RDMA is asked for", ""},
		{"no uvm", set("nvidia"), Config{}, "", "", "has no nvidia-uvm"},
		{"nothing found", nil, Config{DRM: true}, "nvidia nvidia-uvm nvidia-modeset nvidia-drm", "", ""},
	} {
		var said sayings
		n := &Node{cfg: c.cfg, say: said.say, found: c.set, source: fromImage, want: Want{Release: imageKernel, Modules: c.cfg.modules(true)}, board: (&board{}).mute()}
		err := n.narrow()
		if err == nil {
			err = n.checkParams()
		}
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || c.cfg.DRM != errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || strings.Join(n.want.Modules, " ") != c.want || !strings.Contains(strings.Join(said, " "), c.says):
			t.Errorf("%s: %v, %v, %q", c.name, n.want.Modules, err, said)
		}
	}
}

// A damaged set of the image is said to be the image's fault, and the cache is looked into all the same.
func TestDamagedImage(t *testing.T) {
	t.Parallel()
	s := signing(t, "")
	set, err := kbuild.Cache{Dir: s.image}.Put(t.Context(), made(t, imageKernel))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(set.Modules[0].Path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	_, _, err = s.Find(t.Context(), w)
	var corrupt *kbuild.CorruptError
	if !errors.Is(err, kbuild.ErrMiss) || !errors.As(err, &corrupt) || !strings.HasPrefix(corrupt.Dir, s.image) {
		t.Errorf("%v", err)
	}
	s.info.Toolchain = false
	_, err = s.Compile(t.Context(), w)
	var none *NoModulesError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "neither modules nor a toolchain") {
		t.Errorf("%v", err)
	}
	if s.cached(w.Flavour, w.Release) {
		t.Error("the cache is empty")
	}
	if _, err := s.Keep(t.Context(), made(t, imageKernel)); err != nil {
		t.Fatal(err)
	}
	if _, source, err := s.Find(t.Context(), w); err != nil || source != fromCache || !s.cached(w.Flavour, w.Release) {
		t.Errorf("from %s, %v", source, err)
	}
}
