package adoption

import (
	"errors"
	"io/fs"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// kernel has modules and the parameters that they show.
type kernel struct {
	modules map[string]kmod.Module
	params  map[string]map[string]string
	flavour error
}

func (k kernel) Module(name string) (kmod.Module, error) {
	m, ok := k.modules[name]
	if !ok {
		return m, fs.ErrNotExist
	}
	return m, nil
}
func (k kernel) Flavour() (string, error) { return "open", k.flavour }
func (k kernel) Params(name string) (map[string]string, error) {
	if p, ok := k.params[name]; ok {
		return p, nil
	}
	return nil, fs.ErrNotExist
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const driver = "535.261.03"
	names := []string{"nvidia", "nvidia_uvm", "nvidia_modeset"}
	var files []status.Module
	loaded := map[string]kmod.Module{}
	for _, name := range names {
		files = append(files, status.Module{Name: name, SrcVersion: name + "-1"})
		loaded[name] = kmod.Module{Name: name, Version: driver, SrcVersion: name + "-1"}
	}
	unreadable := errors.New("unreadable")
	for name, c := range map[string]struct {
		edit func(k *kernel, w *Wanted)
		want Verdict
		err  error
	}{
		"all agree":      {func(*kernel, *Wanted) {}, Verdict{Adopted: true}, nil},
		"record alone":   {func(_ *kernel, w *Wanted) { w.Recorded, w.Files = w.Files, nil }, Verdict{Adopted: true}, nil},
		"nothing loaded": {func(k *kernel, _ *Wanted) { clear(k.modules) }, Verdict{}, nil},
		"two missing": {func(k *kernel, _ *Wanted) { delete(k.modules, "nvidia_uvm"); delete(k.modules, "nvidia_modeset") },
			Verdict{Adopted: true, Lacking: names[1:], Reasons: []string{"nvidia_uvm is not loaded", "nvidia_modeset is not loaded"}}, nil},
		"one missing, one differs": {func(k *kernel, _ *Wanted) {
			delete(k.modules, "nvidia_modeset")
			k.modules["nvidia_uvm"] = kmod.Module{Name: "nvidia_uvm", Version: driver, SrcVersion: "2"}
		}, Verdict{Adopted: true, Lacking: names[2:], Differing: names[1:2], Reasons: []string{
			"another build of nvidia_uvm is loaded (srcversion 2, ours has nvidia_uvm-1)", "nvidia_modeset is not loaded"}}, nil},
		"nvidia differs": {func(k *kernel, _ *Wanted) {
			delete(k.modules, "nvidia_uvm")
			k.modules["nvidia"] = kmod.Module{Name: "nvidia", Version: "470.256.02"}
		}, Verdict{Reasons: []string{"nvidia 470.256.02 is loaded, wanted is 535.261.03"}}, nil},
		"flavour": {func(_ *kernel, w *Wanted) { w.Flavour = "proprietary" }, Verdict{Reasons: []string{"the open flavour is loaded, wanted is proprietary"}}, nil},
		"unknown": {func(_ *kernel, w *Wanted) { w.Files = w.Files[:2] },
			Verdict{Adopted: true, Differing: names[2:], Reasons: []string{"nvidia_modeset was loaded by somebody else: there is no record of it and no file to compare with"}}, nil},
		"recorded parameters": {func(_ *kernel, w *Wanted) {
			w.Recorded = []status.Module{{Name: "nvidia_uvm", SrcVersion: "nvidia_uvm-1", Params: []string{"a=1"}}}
		}, Verdict{Adopted: true, Differing: names[1:2], Reasons: []string{`nvidia_uvm was loaded with parameters ["a=1"], wanted are []`}}, nil},
		"live parameters": {func(k *kernel, w *Wanted) {
			k.params, w.Options = map[string]map[string]string{"nvidia": {"a": "2"}}, kmod.Options{"nvidia": {"a=1"}}
		}, Verdict{Reasons: []string{"nvidia is loaded with other parameters: a is 2, wanted 1"}}, nil},
		"no answer": {func(k *kernel, _ *Wanted) { k.flavour = unreadable }, Verdict{}, unreadable},
	} {
		k, w := kernel{modules: maps.Clone(loaded)}, Wanted{Driver: driver, Flavour: "open", Modules: names, Files: files}
		c.edit(&k, &w)
		got, err := Compare(k, w)
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		assert.Equalf(t, got.Adopted && len(got.Reasons) == 0, got.Whole(), "%s: whole", name)
	}
}
