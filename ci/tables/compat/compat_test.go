package main

import (
	"bytes"
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
	const compiling = "#10 20.47 2026-11-23T09:24:38.874Z compiling driver=535.261.03 flavour=proprietary kernel=6.1.0-56-amd64 " +
		`compiler="gcc 12.2.0" jobs=2 modules="nvidia, nvidia-uvm"` + "\n"
	const begin = "#9 318.9 nvidia-driver: compile driver 535.261.03 for kernel 6.1.0-56-amd64: make failed: exit status 2"
	const end = "; does this driver support this kernel and compiler? whole output in /var/tmp/nvidia-driver/compile.log\n"
	const left = "#9 120.0 left out: nvidia-fs for 6.12.117+deb13-amd64 (proprietary): " +
		"/var/tmp/x/driver-modules/source/nvfs-mmap.c:7: error: a (b): c\n"
	failed := errors.New("exit status 6")
	for _, c := range []struct {
		log           string
		failed        error
		err, compiler string
	}{
		{begin + ": /var/tmp/nvidia-driver/driver-modules/source/nvidia/nv-pci.c:223:9: error: too few arguments" + end, failed,
			"nvidia/nv-pci.c:223:9: error: too few arguments", ""},
		{compiling + begin + ": /usr/src/linux-headers-6.1.0-56-common/include/linux/mm.h:7:1: error: no; such thing" + end, failed,
			"include/linux/mm.h:7:1: error: no; such thing", "gcc 12.2.0"},
		{"compile driver 1.2 for kernel 6.1: make failed: signal: killed: gcc: error: x" + end, failed, "gcc: error: x", ""},
		{begin + end, failed, "make says no reason", ""},
		{begin + ": a: error: x" + end + "  " + begin + ": b: error: x" + end, failed, "b: error: x", ""},
		{"#9 106.9 compiling with chroot\n" + compiling, nil, "", "gcc 12.2.0"},
		{"#9 106.9 compiling with chroot\n", nil, "", ""},
		{"x\n" + left + "y\n", nil, "nvfs-mmap.c:7: error: a (b): c", ""},
	} {
		r := require.Value(outcome(c.log, c.failed))(t)
		assert.Samef(t, &result{Error: c.err, Compiler: c.compiler}, r, "%q", c.log)
	}
	for _, log := range []string{
		begin + ": x; out of memory: raise the container's memory limit above 1 GiB; whole output in /x\n",
		begin + ": no space left on device; free some space there; whole output in /x\n",
		"package nvidia-kernel-source: no such package\n", "",
	} {
		assert.ErrorIsf(t, assert.Err(outcome(log, failed)), failed, "%q", log)
	}
}

// examples returns one cell of every kind.
func examples() []*cell {
	old, mid, fresh := kernel{Release: "5.10.0-46-amd64", Version: "5.10.262-1"}, kernel{Release: "6.1.0-56-amd64", Version: "6.1.192-2"},
		kernel{Release: "6.12.117+deb13-amd64", Version: "6.12.117-1"}
	const closed, open = matrix.Proprietary, matrix.Open
	beside := &matrix.Companion{Name: "nvidia-fs", Version: "2.13.5"}
	const day, next = "2026-11-20", "2026-11-21"
	return []*cell{
		{"debian11", old, drivers[0], closed, "", "", &result{Compiler: "gcc 10.2.1", Source: "packages", Date: day}, nil},
		{"debian11", old, drivers[1], closed, "", "", nil, nil},
		{"debian12", mid, drivers[0], closed, "", "kernel-too-new: 6.1 | 5.15", &result{Error: "gcc: error: a | `b`", Source: "archive", Date: day}, nil},
		{"debian12", mid, drivers[2], closed, "", "", &result{Error: "nvidia-drm/x.c:1: error: y", Source: "packages", Date: next}, nil},
		{"debian12", mid, drivers[3], open, "a, b", "kernel-too-new: z", &result{Compiler: "gcc 12.2.0", Source: "packages", Date: next}, nil},
		{"debian13", fresh, drivers[4], open, "", "", nil, nil},
		{"debian12", mid, drivers[3], closed, "", "", &result{Source: "packages", Date: next}, beside},
		{"debian12", mid, drivers[3], open, "a, b", "", &result{Error: "x.c:1: error: y", Source: "packages", Date: next}, beside},
		{"debian12", mid, drivers[4], closed, "", "no-companion: z", &result{Error: "x.c:1: error: y", Source: "archive", Date: next}, beside},
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
	const committed = "../../../matrix.yaml"
	m := require.Value(batch.ReadMatrix(committed, nil, nil))(t)
	l := &laboratory{work: t.TempDir(), matrix: m, matrixFile: committed}
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

// standIn is a shell script instead of driver-build. Its messages are those of the real program.
const standIn = `#!/bin/sh
case " $* " in
*" kernels "*) cat <<END
{"schema":1,"items":[{"kernel":"6.1.0-57-cloud-amd64","flavour":"cloud-amd64","default":true},{"kernel":"6.12.1-amd64","flavour":"amd64"},
{"kernel":"6.1.0-57-amd64","flavour":"amd64","default":true,"version":"6.1.200-1"}]}
END
;;
*" --modules nvidia,nvidia-uvm --companions nvidia-fs "*) echo 'left out: nvidia-fs for 6.1 (proprietary): x.c:1: error: z' >&2 ;;
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
	for _, trouble := range []string{"exit status 4: network", "exit status 9"} {
		assert.ErrorContains(t, l.fill(t.Context(), cells, "535.261.03"), cells[0].String()+": "+trouble)
		for i, want := range []*result{
			nil, {Error: "nvidia-drm/x.c:1: error: y", Compiler: "gcc 12.2.0", Source: "packages"}, nil, {Error: "x.c:1: error: z", Source: "packages"},
		} {
			if cells[i].Result != nil {
				cells[i].Result.Date = ""
			}
			assert.Samef(t, want, cells[i].Result, "%s", cells[i])
		}
		testfile.Write(t, l.program, "#!/bin/sh\nexit 9\n")
	}
	testfile.Write(t, filepath.Join(dir, "results.json"), "{")
	assert.ErrorContains(t, l.fill(t.Context(), cells, ""), "delete it")
}
