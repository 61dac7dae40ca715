package modules

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/status"
)

// TestMissingCompanions checks what preflight says of each reason why a companion will be missing or will not work.
func TestMissingCompanions(t *testing.T) {
	t.Parallel()
	const old, kernel = "2.13.5", "6.1.0-38-amd64"
	image := func(version string, flavours ...string) driverinfo.Description {
		return driverinfo.Description{Companions: []driverinfo.Companion{{Name: driverinfo.NvidiaFS, Version: version, Flavours: flavours}}}
	}
	set := &kbuild.Set{Modules: []kbuild.File{{Name: "nvidia"}, {Name: "nvidia-fs"}}}
	without := &kbuild.Set{Modules: []kbuild.File{{Name: "nvidia"}}, Omitted: []kbuild.Omission{{Module: "nvidia-fs", Reason: "nvfs-core.c:2282: error: conflicting types"}}}
	for _, test := range []struct {
		name    string
		info    driverinfo.Description
		flavour string
		kernel  string
		set     *kbuild.Set
		says    string
		fix     string
	}{
		{"nothing to say", image(old), driverinfo.Proprietary, kernel, set, "nvidia-fs 2.13.5", ""},
		{"to be compiled", image(old), driverinfo.Open, kernel, nil, "nvidia-fs 2.13.5 will be compiled", ""},
		{"not in the image", driverinfo.Description{}, driverinfo.Open, kernel, set, "GPUDirect Storage will be missing: the image has no nvidia-fs", "--gds (GDS_ENABLED) off"},
		{"for the other flavour", image("2.28.4", driverinfo.Open), driverinfo.Proprietary, kernel, set, "is for the open kernel modules, and not for the proprietary ones", "KERNEL_MODULE_TYPE=open"},
		{"new, closed", image("2.17.5"), driverinfo.Proprietary, kernel, set, "nvidia-fs 2.17.5 needs the open kernel modules", "KERNEL_MODULE_TYPE=open"},
		{"new, open", image("2.17.5"), driverinfo.Open, "6.12.1", set, "nvidia-fs 2.17.5", ""},
		{"symbol_get", image(old), driverinfo.Proprietary, "6.12.48+deb13-amd64", set, "kernel 6.12.48+deb13-amd64 refuses", "KERNEL_MODULE_TYPE=open"},
		{"made without it", image(old), driverinfo.Proprietary, kernel, &kbuild.Set{}, "have no nvidia-fs 2.13.5: they were made without it", "compiles for this kernel"},
		{"left out", image(old), driverinfo.Proprietary, kernel, without, "GPUDirect Storage will be missing: the modules for kernel  have no nvidia-fs 2.13.5: nvfs-core.c:2282: error", "compiles for this kernel"},
	} {
		text, fix := Group{Info: test.info, Wanted: Wanted(true, false), Flavour: test.flavour, Set: test.set}.Check(test.kernel)
		if !strings.Contains(text, test.says) || (fix == "") != (test.fix == "") || !strings.Contains(fix, test.fix) {
			t.Errorf("%s: %s (%s)", test.name, text, fix)
		}
	}
	text, fix := Group{Info: image(old), Wanted: Wanted(true, true), Flavour: driverinfo.Open, Set: set}.Check(kernel)
	if text != "GDRCopy will be missing: the image has no gdrdrv; nvidia-fs 2.13.5" || !strings.HasPrefix(fix, "Use an image") || !strings.Contains(fix, "--gdrcopy") {
		t.Errorf("%s (%s)", text, fix)
	}
}

// oneModule is a kernel with one module. It takes the file of each build under its name, except one.
type oneModule struct {
	Kernel  // of a companion that is replaced nothing else is asked
	live    kmod.Module
	refused string
	deleted int
}

func (k *oneModule) Params(string) (map[string]string, error) { return nil, nil }

func (k *oneModule) Holders(context.Context, ...int) ([]kmod.Holder, error) { return nil, nil }

func (k *oneModule) Module(name string) (kmod.Module, error) {
	if k.live.Name != name {
		return kmod.Module{}, fs.ErrNotExist
	}
	return k.live, nil
}

func (k *oneModule) Insert(_ context.Context, path, _ string, _ []string) error {
	if path == k.refused {
		return &kmod.RefusedError{Module: "gdrdrv", Errno: unix.EKEYREJECTED}
	}
	k.live = kmod.Module{Name: "gdrdrv", SrcVersion: path}
	return nil
}

func (k *oneModule) Delete(context.Context, string) error {
	k.live = kmod.Module{}
	k.deleted++
	return nil
}

// TestReplaceCompanion: a build that waits for the users of the one before is loaded when they are gone. One that the
// kernel refuses is tried once, and the one before it stays: a node exchanged them every 5 s otherwise.
func TestReplaceCompanion(t *testing.T) {
	t.Parallel()
	for refused, want := range map[string]string{"": "new", "new": "old"} {
		kernel := &oneModule{live: kmod.Module{Name: "gdrdrv", SrcVersion: "old", Refs: 1}, refused: refused}
		info := driverinfo.Description{Companions: []driverinfo.Companion{{Name: driverinfo.GDRDrv}}}
		file := kbuild.File{Name: "gdrdrv", Path: "new"}
		file.Info.SrcVersion = "new"
		group := Group{Kernel: kernel, Wanted: Wanted(false, true), Info: info, Set: &kbuild.Set{Modules: []kbuild.File{file}}}
		record := []status.Module{{Name: "gdrdrv", SrcVersion: "old", File: "old"}}
		load := func() []status.Companion {
			return group.Load(t.Context(), record, func(modules []status.Module) { record = modules })
		}
		states := load()
		_, again := group.Look(record, states)
		assert.Equalf(t, false, again, "while it is in use")
		kernel.live.Refs = 0
		_, again = group.Look(record, states)
		assert.Equalf(t, true, again, "when its users are gone")
		states = load()
		_, again = group.Look(record, states)
		assert.Equalf(t, false, again, "after it was tried")
		assert.Equal(t, want, kernel.live.SrcVersion)
		assert.Equal(t, 1, kernel.deleted)
		assert.Equalf(t, refused != "", states[0].Reason != "", "%s", states[0].Reason)
	}
}

func TestCheckFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nvidia.ko")
	require.NoError(t, os.WriteFile(file, []byte("abc"), 0o600))
	m := []status.Module{{Name: "nvidia", File: file, SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}
	assert.NoError(t, CheckFiles(m))
	m[0].SHA256 = "00"
	assert.ErrorContains(t, CheckFiles(m), "it had 00 when it was verified")
	m[0].File = "/nonexistent"
	assert.ErrorIs(t, CheckFiles(m), os.ErrNotExist)
}

func TestOFED(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	assert.Equalf(t, "", require.Value(OFED(root, "x86_64", "6.1.0-1-amd64"))(t), "without Mellanox's driver")
	symvers := filepath.Join(root, ofedContainer, "x86_64/6.1.0-1-amd64/Module.symvers")
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(symvers), 0o755), os.MkdirAll(filepath.Join(root, "usr/src"), 0o755), os.WriteFile(symvers, []byte("0x1"), 0o600)))
	first, err := OFED(root, "x86_64", "6.1.0-1-amd64")
	if err != nil || !strings.HasPrefix(first, "ofa_kernel-") {
		t.Fatalf("%q, %v", first, err)
	}
	assert.Equalf(t, "/"+ofedContainer, require.Value(os.Readlink(filepath.Join(root, ofedSource)))(t), "link")
	require.NoError(t, os.WriteFile(symvers, []byte("0x2"), 0o600))
	second, err := OFED(root, "x86_64", "6.1.0-1-amd64")
	if err != nil || second == first {
		t.Errorf("another driver has the same name: %q, %v", second, err)
	}
	// The link to the container's folder is for the root of the node, and leads nowhere here.
	for _, older := range []string{"default", "6.1.0-1-amd64"} {
		require.NoError(t, os.Rename(filepath.Dir(symvers), filepath.Join(root, ofedContainer, older)))
		symvers = filepath.Join(root, ofedContainer, older, "Module.symvers")
		assert.Equalf(t, second, require.Value(OFED(root, "x86_64", "6.1.0-1-amd64"))(t), "headers in %s", older)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		step := Progress(log.Logger())
		for done := range 25 {
			time.Sleep(time.Second)
			step(done, 800, "CC [M]  nvidia/nv.o")
		}
		line := regexp.MustCompile(logtest.Progress + `\d0s step="CC \[M\]  nvidia/nv\.o"\n`)
		assert.Equalf(t, 2, len(line.FindAllString(log.String(), -1)), "lines: %s", &log)
	})
}

func TestSources(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "/usr/src/nvidia-535.261.03/kernel", Sources("535.261.03", driverinfo.Proprietary))
	assert.Equal(t, "/usr/src/nvidia-535.261.03/kernel-open", Sources("535.261.03", driverinfo.Open))
}
