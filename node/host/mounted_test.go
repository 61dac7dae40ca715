package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// TestMounted: modules and headers of a mounted image serve a node whose image has none; the node's key never signs
// those modules.
func TestMounted(t *testing.T) {
	t.Parallel()
	_, _, key := keyPair(t, "A")
	s, mount := signing(t, key), t.TempDir()
	s.cfg.ModuleImages = []string{t.TempDir(), mount}
	const other = "6.1.0-98-amd64"
	kbuildtest.Toolkit(t, mount, other, "")
	require.Value(kbuild.Cache{Dir: mount + imageModules}.Put(t.Context(), made(t, imageKernel)))(t)
	set, source, err := s.Find(t.Context(), node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel})
	if err != nil || source != status.FromMounted || s.Signer(set, source) != nil {
		t.Fatalf("from %q, %v", source, err)
	}
	h := &hardware{info: driverinfo.Description{Driver: v535, Flavours: []string{driverinfo.Open, driverinfo.Proprietary}}, supply: s,
		supported: func() (preflight.Supported, error) { return preflight.Supported{}, nil }}
	assert.Same(t, []string{driverinfo.Proprietary}, h.serves(imageKernel))
	in := preflight.Input{Flavour: driverinfo.Proprietary, Release: imageKernel, HaveModules: true, Source: source, Load: []preflight.Loading{{Path: set.Modules[0].Path}}}
	for _, c := range h.Preflight(t.Context(), in) {
		if c.Name == preflight.Available && (c.Status != preflight.OK || !strings.HasSuffix(c.Finding, mount+imageModules+"/"+set.Key.String())) {
			t.Errorf("%+v", c)
		}
	}
	headers := require.Value(s.headers(other))(t)
	assert.Equal(t, moduleImage, headers.Origin)
}

// TestMountedHostile: of an image whose modules are of no use, or are not what they should be, nothing is taken and
// nothing outside of it is opened. The search goes on, and the log says once why.
func TestMountedHostile(t *testing.T) {
	t.Parallel()
	good := made(t, imageKernel)
	outside := testfile.Write(t, filepath.Join(t.TempDir(), "nvidia.ko"), string(require.Value(os.ReadFile(good.Modules[0].Path))(t)))
	replace := func(name string, create func(path string) error) func(root, set string) error {
		return func(_, set string) error {
			path := filepath.Join(set, name)
			return errors.Join(os.RemoveAll(path), create(path))
		}
	}
	link := func(path string) error { return os.Symlink(outside, path) }
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	key := func(edit func(*kbuild.Key)) func(*kbuild.Set) { return func(s *kbuild.Set) { edit(&s.Key) } }
	module := func(content string) func(*kbuild.Set) {
		return func(s *kbuild.Set) {
			f := &s.Modules[0]
			f.Path = testfile.Write(t, filepath.Join(t.TempDir(), "nvidia.ko"), content)
			f.SHA256, f.Size, _ = kbuild.Digest(f.Path)
		}
	}
	foreign := []byte(kbuildtest.Module("nvidia", v535, imageKernel))
	foreign[18] = 183 // EM_AARCH64
	for name, c := range map[string]struct {
		edit  func(*kbuild.Set)
		spoil func(root, set string) error
		want  string
	}{
		"another driver":     {key(func(k *kbuild.Key) { k.Driver = v470 }), nil, "has proprietary modules of driver " + v470 + " for kernel " + imageKernel},
		"another kernel":     {key(func(k *kbuild.Key) { k.Release = "6.1.0-57-amd64" }), nil, "for kernel 6.1.0-57-amd64 (amd64): it is left alone"},
		"another flavour":    {key(func(k *kbuild.Key) { k.Flavour = driverinfo.Open }), nil, "has open modules"},
		"another machine":    {key(func(k *kbuild.Key) { k.Arch = "arm64" }), nil, "(arm64), of other sources"},
		"other sources":      {key(func(k *kbuild.Key) { k.Patches = []string{"a@sha256:1"} }), nil, "of other sources or another build"},
		"not of its machine": {module(string(foreign)), nil, "nvidia.ko: the module is for EM_AARCH64, not amd64"},
		"not of its kernel":  {module(kbuildtest.Module("nvidia", v535, "6.6.6")), nil, `the module is for kernel "6.6.6"`},
		"not of its driver":  {module(kbuildtest.Module("nvidia", v470, imageKernel)), nil, "has version"},
		"no module":          {module("x"), nil, "read the module"},
		"damaged":            {nil, func(_, set string) error { return os.WriteFile(set+"/nvidia.ko", []byte("x"), 0o600) }, "has changed since"},
		"incomplete":         {nil, func(_, set string) error { return os.Remove(set + "/nvidia.ko") }, "it is not complete"},
		"link":               {nil, replace("nvidia.ko", link), "nvidia.ko is no regular file"},
		"pipe":               {nil, replace("nvidia.ko", pipe), "nvidia.ko is no regular file"},
		"linked manifest":    {nil, replace(kbuild.ManifestName, link), "manifest.json is no regular file"},
		"piped manifest":     {nil, replace(kbuild.ManifestName, pipe), "manifest.json is no regular file"},
		"large manifest":     {nil, func(_, set string) error { return os.Truncate(set+"/"+kbuild.ManifestName, 1<<40) }, "larger than"},
		"linked set": {nil, func(root, set string) error {
			return errors.Join(os.Rename(set, root+"/set"), os.Symlink(root+"/set", set))
		}, "has no modules in"},
		"a file, not a folder": {nil, func(root, _ string) error {
			return errors.Join(os.RemoveAll(root+imageModules), os.WriteFile(root+imageModules, nil, 0o600))
		}, "has no modules in"},
		"folder elsewhere": {nil, func(root, _ string) error {
			return errors.Join(os.Rename(root+imageModules, filepath.Dir(outside)+"/modules"), os.Symlink(filepath.Dir(outside)+"/modules", root+imageModules))
		}, "has no modules in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Log
			s, root := signing(t, ""), t.TempDir()
			s.log, s.cfg.ModuleImages = log.Logger(), []string{root}
			set := *good
			set.Modules = append([]kbuild.File(nil), good.Modules...)
			if c.edit != nil {
				c.edit(&set)
			}
			put := require.Value(kbuild.Cache{Dir: root + imageModules}.Put(t.Context(), &set))(t)
			if c.spoil != nil {
				require.NoError(t, c.spoil(root, put.Dir))
			}
			w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
			_, _, err := s.Find(t.Context(), w)
			assert.ErrorIs(t, err, kbuild.ErrMiss)
			require.Value(s.Keep(t.Context(), good, nil))(t)
			if _, source, err := s.Find(t.Context(), w); err != nil || source != status.FromCache {
				t.Errorf("from %q, %v", source, err)
			}
			if n := strings.Count(log.String(), c.want); n == 0 || strings.Contains(c.want, "left alone") && n > 1 {
				t.Errorf("%d times %q in:\n%s", n, c.want, &log)
			}
		})
	}
}
