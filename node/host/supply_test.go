package host

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
)

// TestFindInTheCache checks that a set fits if driver, flavour, release and compile method are the same and
// it was not compiled for another build of that release.
func TestFindInTheCache(t *testing.T) {
	t.Parallel()
	running := require.Value(kernelRelease())(t)
	const elsewhere = "6.1.0-99-elsewhere"
	ours, err := kbuild.KernelID(running, buildtree.Headers{}, "", "")
	hasID := err == nil
	good := kbuild.Key{Driver: v535, Flavour: "open", Release: running, Arch: "amd64", Kernel: ours, Compiler: "gcc 12.2.0", Method: kbuild.Method, Patches: []string{"a@sha256:1"}}
	patches := []driverinfo.Patch{{Name: "a", SHA256: "1", Flavours: []string{"open"}}, {Name: "b", SHA256: "3", Flavours: []string{"proprietary"}}}
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
		{"compiled for vGPU guests", running, func(k *kbuild.Key) { k.Variables = driverinfo.MakeVariables(driverinfo.VGPUAWS) }, false},
		{"another method", running, func(k *kbuild.Key) { k.Method++ }, false},
		{"compiled with an RDMA driver", running, func(k *kbuild.Key) { k.Patches = append(k.Patches, "ofa_kernel-12") }, false},
		{"sources without the image's patch", running, func(k *kbuild.Key) { k.Patches = nil }, false},
		{"sources with another text of the patch", running, func(k *kbuild.Key) { k.Patches = []string{"a@sha256:2"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &supply{cfg: config.Config{StateDir: t.TempDir()}, info: driverinfo.Description{Driver: v535, Arch: "amd64", Patches: patches}, log: logtest.New(t)}
			set := fakeSet(t, good)
			test.edit(&set.Key)
			if set.Key.Kernel == "" {
				set.Key.Kernel = "headers 12" // this kernel does not show its build id
			}
			require.Value(s.Keep(t.Context(), set, nil))(t)
			got, source, err := s.Find(t.Context(), node.Want{Driver: v535, Flavour: "open", Release: test.release})
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
	path := testfile.Write(t, t.TempDir()+"/nvidia.ko", "nvidia"+v535)
	sum, size, err := kbuild.Digest(path)
	require.NoError(t, err)
	info := kmod.Info{Name: "nvidia", Version: v535, SrcVersion: "NVIDIA" + v535}
	return &kbuild.Set{Dir: filepath.Dir(path), Key: k, Modules: []kbuild.File{{Name: "nvidia", Path: path, SHA256: sum, Size: size, Info: info}}}
}
