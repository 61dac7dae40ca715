package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node/config"
)

const imageKernel = kbuildtest.Kernel

// builder returns a compile in a root with fake tools, in which make copies finished modules.
func builder(t *testing.T, script string) ImageCompile {
	t.Helper()
	root := t.TempDir()
	kbuildtest.Image(t, root)
	path := kbuildtest.Toolkit(t, root, imageKernel, script)
	return ImageCompile{Release: imageKernel, Flavour: driverinfo.Proprietary, Dir: filepath.Join(root, "out"), root: root,
		scratch: filepath.Join(root, "scratch"), path: path}
}

func names(set *kbuild.Set) (out []string) {
	for _, f := range set.Modules {
		out = append(out, f.Name)
	}
	return out
}

// TestCompileInto checks that a compile for an image depends on the image alone, and that its result is an
// entry of a cache.
func TestCompileInto(t *testing.T) {
	t.Parallel()
	c := builder(t, "cp KOS/*.ko .")
	info := require.Value(readInfo(c.root))(t)
	info.Patches = []driverinfo.Patch{{Name: "pci", SHA256: strings.Repeat("a", 64), Flavours: []string{driverinfo.Proprietary}}}
	testfile.Write(t, filepath.Join(c.root, driverinfo.Path), string(require.Value(info.Encode())(t)))
	var log logtest.Log
	set := require.Value(CompileForImage(t.Context(), c, log.Logger()))(t)
	line := logtest.Compiling + `535\.261\.03 flavour=proprietary kernel=\S+ compiler="gcc 12\.2\.0" jobs=\d+ `
	assert.Equalf(t, true, regexp.MustCompile(line).MatchString(log.String()), "a line like %q in\n%s", line, &log)
	if !slices.Equal(names(set), driverinfo.Modules()) || set.SigHash != "sha256" || set.Dir != filepath.Join(c.Dir, set.Key.String()) || !strings.HasPrefix(set.Key.Kernel, "headers ") {
		t.Errorf("%+v", set)
	}
	assert.Same(t, []string{"pci@sha256:" + strings.Repeat("a", 64)}, set.Key.Patches)
	assert.ErrorIsf(t, assert.Err(os.Stat(c.scratch)), fs.ErrNotExist, "the scratch folder is left")
	found, err := kbuild.Cache{Dir: c.Dir}.Get(t.Context(), set.Key)
	if err != nil || len(found.Modules) != 5 {
		t.Errorf("%+v, %v", found, err)
	}
	c.Modules, c.Dir = []string{"nvidia-uvm", "nvidia"}, filepath.Join(c.root, "fewer")
	if set, err = CompileForImage(t.Context(), c, logtest.New(t)); err != nil || !slices.Equal(names(set), []string{"nvidia", "nvidia-uvm"}) {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestCompileIntoRefuses(t *testing.T) {
	t.Parallel()
	good := builder(t, "echo 'nv.c:1: error: no such thing'; exit 2")
	type none = *buildtree.NoHeadersError
	type failed = *kbuild.CompileError
	for _, c := range []struct {
		edit func(*ImageCompile)
		is   func(error) bool
		want string
	}{
		{func(i *ImageCompile) { i.Flavour = "auto" }, isConfig, "must be open or proprietary"},
		{func(i *ImageCompile) { i.Release = "" }, isConfig, "--kernel"},
		{func(i *ImageCompile) { i.Flavour = driverinfo.Open }, isConfig, "the image has no sources of that flavour"},
		{func(i *ImageCompile) { i.Modules = []string{"nvidia", "nvidia-fs"} }, isConfig, "no module \"nvidia-fs\"; the sources offer nvidia, nvidia-uvm, nvidia-modeset, nvidia-drm, nvidia-peermem"},
		{func(i *ImageCompile) { i.Modules = []string{"nvidia"} }, isConfig, "a driver does not work without nvidia-uvm"},
		{func(i *ImageCompile) { i.Modules = []string{"nvidia", "nvidia-uvm", "nvidia-drm"} }, isConfig, "nvidia-drm does not work without nvidia-modeset"},
		{func(i *ImageCompile) { i.Release = "6.1.0-57-amd64" }, func(err error) bool { return errors.As(err, new(none)) }, "no headers for kernel 6.1.0-57-amd64"},
		{func(i *ImageCompile) { i.root = t.TempDir() }, isConfig, "driver-build made"},
		{func(*ImageCompile) {}, func(err error) bool { return errors.As(err, new(failed)) }, "nv.c:1: error: no such thing"},
	} {
		i := good
		c.edit(&i)
		var log logtest.Log
		_, err := CompileForImage(t.Context(), i, log.Logger())
		if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		assert.Errorf(t, assert.Err(os.Stat(good.Dir)), "something was left in the output")
		if c.want == "nv.c:1: error: no such thing" && !slices.Contains(log.Lines(), "| "+c.want) {
			t.Errorf("the compiler's words are not said: %q", log.Lines())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, assert.Err(CompileForImage(ctx, good, logtest.New(t))), context.Canceled, "cancelled")
}

func isConfig(err error) bool { return errors.Is(err, config.ErrConfig) }
