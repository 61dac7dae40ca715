package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
)

const imageKernel = "6.1.0-56-amd64"

// elfModule returns a kernel module that consists only of its description.
func elfModule(name, version, release string) string {
	info := fmt.Sprintf("name=%s\x00vermagic=%s SMP mod_unload\x00license=NVIDIA\x00version=%s\x00", name, release, version)
	names := "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	add := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // to memory
		}
	}
	data := uint64(64)
	add([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	add(uint16(1), uint16(62), uint32(1), uint64(0), uint64(0), data+uint64(len(info)+len(names)), uint32(0), uint16(64), uint16(0), uint16(0), uint16(64), uint16(3), uint16(2))
	add([]byte(info), []byte(names))
	section := func(name, kind uint32, offset, size uint64) {
		add(name, kind, uint64(0), uint64(0), offset, size, uint32(0), uint32(0), uint64(1), uint64(0))
	}
	section(0, 0, 0, 0)
	section(1, 1, data, uint64(len(info)))
	section(10, 3, data+uint64(len(info)), uint64(len(names)))
	return b.String()
}

// builder returns a compile in a root with fake tools, in which make copies finished modules.
func builder(t *testing.T, script string) ImageCompile {
	t.Helper()
	root := t.TempDir()
	info := require.Value(driverinfo.Description{Driver: v535, Branch: "R535", OS: "debian12", Arch: "amd64", Profile: "full",
		Flavours: []string{driverinfo.Proprietary}, ID: strings.Repeat("0", 64)}.Encode())(t)
	testfile.Write(t, root+"/"+driverinfo.Path, string(info))
	source := "usr/src/nvidia-" + v535 + "/kernel/"
	for _, name := range []string{"Makefile", "Kbuild", "conftest.sh", "common/inc/nv.h"} {
		testfile.Write(t, root+"/"+source+name, "")
	}
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"} {
		testfile.Write(t, root+"/"+source+name+"/"+name+".Kbuild", "")
		testfile.Write(t, root+"/kos/"+name+".ko", elfModule(strings.ReplaceAll(name, "-", "_"), v535, imageKernel))
	}
	const text = "gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"
	tree := "usr/src/linux-headers-" + imageKernel + "/"
	testfile.Write(t, root+"/"+tree+"include/generated/utsrelease.h", "#define UTS_RELEASE \""+imageKernel+"\"\n")
	testfile.Write(t, root+"/"+tree+"include/config/auto.conf", "CONFIG_MODULES=y\nCONFIG_MODULE_SIG_HASH=\"sha256\"\nCONFIG_CC_VERSION_TEXT=\""+text+"\"\n")
	for _, name := range []string{"include/generated/autoconf.h", "Module.symvers", "include/linux/module.h", "Makefile", "scripts/mod/modpost"} {
		testfile.Write(t, root+"/"+tree+name, "# "+name)
	}
	testfile.Write(t, root+"/bin/make", "#!/bin/sh\ncd \"$2\" || exit 9\n"+strings.ReplaceAll(script, "KOS", root+"/kos")+"\n")
	testfile.Write(t, root+"/bin/strip", "#!/bin/sh\ncp \"$4\" \"$3\"\n")
	testfile.Write(t, root+"/bin/gcc-12", "#!/bin/sh\necho '"+text+"'\n")
	return ImageCompile{Release: imageKernel, Flavour: driverinfo.Proprietary, Dir: filepath.Join(root, "out"), root: root,
		scratch: filepath.Join(root, "scratch"), path: filepath.Join(root, "bin")}
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
	var log logtest.Log
	set := require.Value(CompileForImage(t.Context(), c, log.Logger()))(t)
	line := logtest.Compiling + `535\.261\.03 flavour=proprietary kernel=\S+ compiler="gcc 12\.2\.0" jobs=\d+ `
	if !regexp.MustCompile(line).MatchString(log.String()) {
		t.Errorf("no line like %q in\n%s", line, &log)
	}
	if !slices.Equal(names(set), loadOrder) || set.SigHash != "sha256" || set.Dir != filepath.Join(c.Dir, set.Key.String()) || !strings.HasPrefix(set.Key.Kernel, "headers ") {
		t.Errorf("%+v", set)
	}
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
	type none = *kbuild.NoHeadersError
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

func isConfig(err error) bool { return errors.Is(err, node.ErrConfig) }
