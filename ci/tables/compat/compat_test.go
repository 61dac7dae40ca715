package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

func TestCompileError(t *testing.T) {
	t.Parallel()
	const begin = "#9 318.9 nvidia-driver: compile driver 535.261.03 for kernel 6.1.0-56-amd64: make failed: exit status 2"
	const end = "; does this driver support this kernel and compiler? whole output in /var/tmp/nvidia-driver/compile.log\n"
	for name, tt := range map[string]struct {
		log, want string
		ok        bool
	}{
		"source": {begin + ": /var/tmp/nvidia-driver/driver-modules/source/nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'" + end,
			"nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'", true},
		"header": {begin + ": /usr/src/linux-headers-6.1.0-56-common/include/linux/mm.h:7:1: error: no; such thing" + end,
			"include/linux/mm.h:7:1: error: no; such thing", true},
		"signal":     {"compile driver 1.2 for kernel 6.1: make failed: signal: killed: gcc: error: x" + end, "gcc: error: x", true},
		"no error":   {begin + end, "make says no reason", true},
		"twice":      {begin + ": a: error: x" + end + "  " + begin + ": a: error: x" + end, "a: error: x", true},
		"memory":     {begin + ": x; out of memory: raise the container's memory limit above 1 GiB; whole output in /x\n", "", false},
		"disk":       {begin + ": no space left on device; free some space there; whole output in /x\n", "", false},
		"no compile": {"package nvidia-kernel-source: no such package\n", "", false},
		"empty":      {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := compileError(tt.log); got != tt.want || ok != tt.ok {
				t.Errorf("%q %v, want %q %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestCompilerOf(t *testing.T) {
	t.Parallel()
	const line = `#10 20.47 2026-11-23T09:24:38.874Z compiling driver=535.261.03 flavour=proprietary kernel=6.1.0-56-amd64 compiler="gcc 12.2.0" jobs=2 modules="nvidia, nvidia-uvm"` + "\n"
	for log, want := range map[string]string{
		line: "gcc 12.2.0", "#9 106.9 compiling with chroot\n" + line: "gcc 12.2.0", "#9 106.9 compiling with chroot\n": "", "": "",
	} {
		assert.Equalf(t, want, compilerOf(log), "%q", log)
	}
}

func TestEssential(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"nvidia/nv-pci.c:223:9: error: x":                                                 true,
		"nvidia-uvm/uvm_mmu.c:1:1: error: x":                                              true,
		"nvidia-drm/nvidia-drm-drv.c:7: error":                                            false,
		"nvidia-peermem/nvidia-peermem.c:9: err":                                          false,
		"include/linux/mm.h:7:1: error: no":                                               true,
		"gcc: error: unrecognized option '-x'":                                            true,
		`ERROR: modpost: "x" [nvidia-modeset/nvidia-modeset.ko] undefined!`:               false,
		`ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'`:      true,
		`ERROR: modpost: GPL-incompatible module nvidia-drm.ko uses GPL-only symbol 'x'`:  false,
		`ERROR: modpost: "x" [/var/tmp/driver-modules/source/nvidia-uvm.ko] undefined!`:   true,
		`FATAL: modpost: GPL-incompatible module nvidia-drm.ko uses GPL-only symbol 'xy'`: false,
	} {
		assert.Equalf(t, want, essential(message), "%q", message)
	}
}

func TestLeftOut(t *testing.T) {
	t.Parallel()
	const line = "#9 120.0 left out: nvidia-fs for 6.12.117+deb13-amd64 (proprietary): /var/tmp/x/driver-modules/source/nvfs-mmap.c:7: error: a (b): c\n"
	for log, want := range map[string]string{"x\n" + line + "y\n": "nvfs-mmap.c:7: error: a (b): c", "x\n": ""} {
		got, ok := leftOut(log)
		assert.Equalf(t, want, got, "%q", log)
		assert.Equalf(t, want != "", ok, "%q", log)
	}
}

// examples returns one cell of every kind.
func examples() []*cell {
	old, mid, fresh := kernel{Release: "5.10.0-46-amd64", Version: "5.10.262-1"}, kernel{Release: "6.1.0-56-amd64", Version: "6.1.192-2"},
		kernel{Release: "6.12.117+deb13-amd64", Version: "6.12.117-1"}
	const closed, open = matrix.Proprietary, matrix.Open
	beside := &matrix.Companion{Name: "nvidia-fs", Version: "2.13.5"}
	return []*cell{
		{"debian11", old, drivers[0], closed, "", "", &result{Outcome: compiles, Compiler: "gcc 10.2.1", Source: "packages", Date: "2026-11-20"}, nil},
		{"debian11", old, drivers[1], closed, "", "", &result{Outcome: trouble, Error: "exit status 4: network", Date: "2026-11-20"}, nil},
		{"debian12", mid, drivers[0], closed, "", "kernel-too-new: 6.1 | 5.15", &result{Outcome: fails, Error: "gcc: error: a | `b`", Source: "archive", Date: "2026-11-20"}, nil},
		{"debian12", mid, drivers[2], closed, "", "", &result{Outcome: fails, Error: "nvidia-drm/x.c:1: error: y", Compute: compiles, Source: "packages", Date: "2026-11-21"}, nil},
		{"debian12", mid, drivers[3], open, "a, b", "kernel-too-new: z", &result{Outcome: compiles, Compiler: "gcc 12.2.0", Source: "packages", Date: "2026-11-21"}, nil},
		{"debian13", fresh, drivers[4], open, "", "", nil, nil},
		{"debian12", mid, drivers[3], closed, "", "", &result{Outcome: compiles, Source: "packages", Date: "2026-11-21"}, beside},
		{"debian12", mid, drivers[3], open, "a, b", "", &result{Outcome: fails, Error: "x.c:1: error: y", Source: "packages", Date: "2026-11-21"}, beside},
		{"debian12", mid, drivers[4], closed, "", "no-companion: z", &result{Outcome: fails, Error: "x.c:1: error: y", Source: "archive", Date: "2026-11-21"}, beside},
		{"debian12", mid, drivers[4], open, "", "no-companion: z", nil, beside},
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	text, differs := render(examples())
	if !differs {
		t.Error("470 fails on 6.1 here and the matrix allows it, but nothing differs")
	}
	goldentest.Compare(t, "testdata/compat.md", text)
	if _, differs := render(examples()[1:3]); differs {
		t.Error("these agree, or are not known")
	}
	beside := examples()[6:]
	if _, differs := render(beside[1:2]); !differs {
		t.Error("the matrix allows a companion that does not compile, but nothing differs")
	}
	if _, differs := render(append(beside[:1], beside[2:]...)); differs {
		t.Error("the matrix allows only companions that compile")
	}
}

// The real matrix has every system and driver of the table, and the matrices made from it are valid.
func TestMatrices(t *testing.T) {
	t.Parallel()
	m := require.Value(batch.ReadMatrix("../../../matrix.yaml", nil, nil))(t)
	l := &laboratory{work: t.TempDir(), matrix: m}
	run := filepath.Join(l.work, "x.run")
	require.NoError(t, os.WriteFile(run, []byte("x"), 0o644))
	for _, d := range drivers {
		if _, err := against(m, &cell{System: d.home, Driver: d, Flavour: matrix.Proprietary, Kernel: kernel{Release: "6.1.0-1-amd64"}}); err != nil {
			t.Error(err)
		}
		packages := require.Value(l.minimalMatrix(d))(t)
		archive := require.Value(l.archiveMatrix(d, run))(t)
		for _, name := range []string{packages, archive} {
			written, err := batch.ReadMatrix(name, nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, require.Value(os.ReadFile(name))(t))
			}
			for _, flavour := range d.flavours() {
				assert.Samef(t, variants(m, d, flavour), variants(written, d, flavour), "%s: patches of the %s modules", name, flavour)
			}
			for _, companion := range m.Companions {
				c := &cell{System: slices.Sorted(maps.Keys(companion.Debian.Systems))[0], Driver: d, Flavour: matrix.Proprietary, Companion: &companion}
				if name == packages && c.System != d.home {
					continue
				}
				file := require.Value(l.companionMatrix(c, name))(t)
				free := require.Value(batch.ReadMatrix(file, nil, nil))(t)
				targets := require.Value(free.Select(matrix.Selection{Systems: []string{c.System}, Drivers: []string{d.version}, Companions: []string{companion.Name}, AllowIncompatible: true}))(t)
				assert.Equalf(t, companion.Version, targets[0].Companions[0].Version, "%s: %s", file, companion.Name)
			}
		}
	}
}

// The second run uses the results of the first; cells with trouble are tried again.
func TestResume(t *testing.T) {
	t.Parallel()
	l := &laboratory{work: t.TempDir()}
	for _, want := range examples()[:3] {
		require.NoError(t, l.save(want))
		got := *want
		got.Result = nil
		require.NoError(t, l.load(&got))
		assert.Samef(t, want.Result, got.Result, "%s: -saved +loaded", want)
	}
	c := examples()[5]
	beside := examples()[6]
	assert.Equalf(t, false, l.file(beside) == l.file(examples()[4]), "the file of a result with a companion")
	if err := l.load(c); err != nil || c.Result != nil {
		t.Errorf("%+v %v; want nothing", c.Result, err)
	}
	require.NoError(t, os.WriteFile(l.file(c), []byte("{"), 0o644))
	assert.Errorf(t, l.load(c), "a result that is cut off was taken")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	assert.Errorf(t, run(t.Context(), []string{"--no-such-flag"}, &stderr), "an unknown flag was taken")
	assert.Errorf(t, run(t.Context(), []string{"--matrix", filepath.Join(t.TempDir(), "x")}, &stderr), "a matrix that is not there was taken")
}

// standIn is a shell script instead of driver-build, for tests of the order of commands. Its messages are
// those of the real program.
const standIn = `#!/bin/sh
case " $* " in
*" kernels "*) echo '{"schema":1,"items":[{"kernel":"6.1.0-57-cloud-amd64","flavour":"cloud-amd64","default":true},{"kernel":"6.12.1-amd64","flavour":"amd64"},{"kernel":"6.1.0-57-amd64","flavour":"amd64","default":true,"version":"6.1.200-1"}]}' ;;
*" --modules nvidia,nvidia-uvm --companions nvidia-fs "*) echo 'left out: nvidia-fs for 6.1 (proprietary): x.c:1: error: z' >&2 ;;
*" --modules "*) echo 'compiling driver=1 flavour=open kernel=6.1 compiler="gcc 12.2.0" jobs=2' >&2 ;;
*" open "*)
  echo 'compiling driver=1 flavour=open kernel=6.1 compiler="gcc 12.2.0" jobs=2' >&2
  echo 'compile driver 1 for kernel 6.1: make failed: exit status 2: nvidia-drm/x.c:1: error: y; does this driver support this kernel' >&2
  exit 6 ;;
*) echo 'network' >&2; exit 4 ;;
esac
`

func TestOneCell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &laboratory{
		program: filepath.Join(dir, "driver-build"), work: dir, bases: map[string]string{"debian12": "oci:x"}, matrixFile: "../../../matrix.yaml",
		say: func(string, ...any) {}, only: "535.261.03",
	}
	testfile.Write(t, l.program, standIn)
	data, err := os.ReadFile(l.matrixFile)
	require.NoError(t, err)
	if l.matrix, err = matrix.Parse(l.matrixFile, data); err != nil {
		t.Fatal(err)
	}
	k, err := l.newest(t.Context(), "debian12")
	if want := (kernel{Release: "6.1.0-57-amd64", Flavour: "amd64", Default: true, Version: "6.1.200-1"}); err != nil || k != want {
		t.Fatalf("%+v %v, want %+v", k, err, want)
	}
	cells := []*cell{
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Proprietary},
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Open},
		{System: "debian12", Kernel: k, Driver: drivers[0], Flavour: matrix.Proprietary},
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Proprietary, Companion: &l.matrix.Companions[0]},
	}
	assert.Errorf(t, l.fill(t.Context(), cells, true), "the trouble of the first cell is not reported")
	for i, want := range []*result{
		{Outcome: trouble, Error: "exit status 4: network", Source: "packages"},
		{Outcome: fails, Error: "nvidia-drm/x.c:1: error: y", Compute: compiles, Compiler: "gcc 12.2.0", Source: "packages"},
		nil,
		{Outcome: fails, Error: "x.c:1: error: z", Source: "packages"},
	} {
		got := cells[i].Result
		if got != nil {
			got.Date, got.Seconds = "", 0
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", cells[i], diff)
		}
	}
	var kept result
	data, err = os.ReadFile(l.file(cells[1]))
	if err != nil || json.Unmarshal(data, &kept) != nil || kept.Outcome != fails {
		t.Errorf("kept %s %v", data, err)
	}
}
