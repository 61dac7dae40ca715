package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	const compiling = `#10 20.47 2026-11-23T09:24:38.874Z compiling driver=535.261.03 flavour=proprietary kernel=6.1.0-56-amd64 compiler="gcc 12.2.0" jobs=2 modules="nvidia, nvidia-uvm"` + "\n"
	const begin = "#9 318.9 nvidia-driver: compile driver 535.261.03 for kernel 6.1.0-56-amd64: make failed: exit status 2"
	const end = "; does this driver support this kernel and compiler? whole output in /var/tmp/nvidia-driver/compile.log\n"
	const left = "#9 120.0 left out: nvidia-fs for 6.12.117+deb13-amd64 (proprietary): /var/tmp/x/driver-modules/source/nvfs-mmap.c:7: error: a (b): c\n"
	failed := errors.New("exit status 6")
	for log, want := range map[string]result{
		begin + ": /var/tmp/nvidia-driver/driver-modules/source/nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'" + end: {
			Outcome: fails, Error: "nvidia/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'"},
		compiling + begin + ": /usr/src/linux-headers-6.1.0-56-common/include/linux/mm.h:7:1: error: no; such thing" + end: {
			Outcome: fails, Error: "include/linux/mm.h:7:1: error: no; such thing", Compiler: "gcc 12.2.0"},
		"compile driver 1.2 for kernel 6.1: make failed: signal: killed: gcc: error: x" + end: {Outcome: fails, Error: "gcc: error: x"},
		begin + end: {Outcome: fails, Error: "make says no reason"},
		begin + ": a: error: x" + end + "  " + begin + ": b: error: x" + end:                               {Outcome: fails, Error: "b: error: x"},
		begin + ": x; out of memory: raise the container's memory limit above 1 GiB; whole output in /x\n": {Outcome: trouble, Error: "exit status 6"},
		begin + ": no space left on device; free some space there; whole output in /x\n":                   {Outcome: trouble, Error: "exit status 6"},
		"package nvidia-kernel-source: no such package\n":                                                  {Outcome: trouble, Error: "exit status 6"},
	} {
		assert.Samef(t, &want, outcome(log, failed), "%q", log)
	}
	for log, want := range map[string]result{
		"#9 106.9 compiling with chroot\n" + compiling: {Outcome: compiles, Compiler: "gcc 12.2.0"},
		"#9 106.9 compiling with chroot\n":             {Outcome: compiles},
		"x\n" + left + "y\n":                           {Outcome: fails, Error: "nvfs-mmap.c:7: error: a (b): c"},
	} {
		assert.Samef(t, &want, outcome(log, nil), "%q", log)
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
	all := examples()
	text, differs := render(all)
	goldentest.Compare(t, "testdata/compat.md", text)
	assert.Equalf(t, true, differs, "470 fails on 6.1 here and the matrix allows it")
	for what, c := range map[string]struct {
		cells []*cell
		want  bool
	}{
		"these agree, or are not known":                       {all[1:3], false},
		"the matrix allows a companion that does not compile": {all[7:8], true},
		"the matrix allows only companions that compile":      {append(all[6:7:7], all[8:]...), false},
	} {
		_, differs := render(c.cells)
		assert.Equalf(t, c.want, differs, "%s", what)
	}
}

// The real matrix has every system and driver of the table, and the matrices made from it are valid.
func TestMatrices(t *testing.T) {
	t.Parallel()
	const real = "../../../matrix.yaml"
	m := require.Value(batch.ReadMatrix(real, nil, nil))(t)
	l := &laboratory{work: t.TempDir(), matrix: m, matrixFile: real}
	run := testfile.Write(t, filepath.Join(l.work, "x.run"), "x")
	for _, d := range drivers {
		cells := []*cell{{System: d.home, Driver: d, Flavour: matrix.Proprietary, Kernel: kernel{Release: "6.1.0-1-amd64"}}}
		require.Value(against(m, cells[0]))(t)
		for _, companion := range m.Companions {
			cells = append(cells, &cell{System: slices.Sorted(maps.Keys(companion.Debian.Systems))[0], Driver: d, Companion: &companion})
		}
		for _, c := range cells {
			for _, from := range []string{"", run} {
				written := require.Value(batch.ReadMatrix(require.Value(l.writeMatrix(c, from))(t), nil, nil))(t)
				for _, flavour := range d.flavours {
					assert.Equalf(t, patchesOf(m, d, flavour), patchesOf(written, d, flavour), "patches of the %s modules of %s", flavour, d.version)
				}
				_, _, packaged := written.Drivers[0].Debian.Wants(d.home, arch)
				assert.Equalf(t, from == "", packaged, "%s from packages", d.version)
				s := matrix.Selection{Systems: []string{c.System}, Drivers: []string{d.version}, AllowIncompatible: true}
				if c.Companion == nil {
					require.Value(written.Select(s))(t)
				} else if from != "" {
					s.Companions = []string{c.Companion.Name}
					assert.Equalf(t, c.Companion.Version, require.Value(written.Select(s))(t)[0].Companions[0].Version, "%s", c)
				}
			}
		}
	}
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

// TestFill: each cell gets its result, and the next run takes all but trouble from the first.
func TestFill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &laboratory{
		program: testfile.Write(t, filepath.Join(dir, "driver-build"), standIn), work: dir, bases: map[string]string{"debian12": "oci:x"},
		matrixFile: "../../../matrix.yaml", log: t.Output(),
	}
	l.matrix = require.Value(batch.ReadMatrix(l.matrixFile, nil, nil))(t)
	k := require.Value(l.newest(t.Context(), "debian12"))(t)
	assert.Equal(t, kernel{Release: "6.1.0-57-amd64", Flavour: "amd64", Default: true, Version: "6.1.200-1"}, k)
	cells := []*cell{
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Proprietary},
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Open},
		{System: "debian12", Kernel: k, Driver: drivers[0], Flavour: matrix.Proprietary},
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Proprietary, Companion: &l.matrix.Companions[0]},
	}
	want := []*result{
		{Outcome: trouble, Error: "exit status 4: network", Source: "packages"},
		{Outcome: fails, Error: "nvidia-drm/x.c:1: error: y", Compute: compiles, Compiler: "gcc 12.2.0", Source: "packages"},
		nil,
		{Outcome: fails, Error: "x.c:1: error: z", Source: "packages"},
	}
	check := func() {
		t.Helper()
		assert.Errorf(t, l.fill(t.Context(), cells, "535.261.03"), "the trouble of the first cell is not reported")
		for i, c := range cells {
			if c.Result != nil {
				c.Result.Date = ""
			}
			assert.Samef(t, want[i], c.Result, "%s", c)
		}
	}
	check()
	testfile.Write(t, l.program, "#!/bin/sh\nexit 9\n")
	want[0].Error = "exit status 9: "
	check()
	results := filepath.Join(dir, "results.json")
	var kept map[string]result
	require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, results)), &kept))
	assert.Equalf(t, 3, len(kept), "kept results")
	testfile.Write(t, results, "{")
	assert.ErrorContains(t, l.fill(t.Context(), cells, ""), "delete it")
}
