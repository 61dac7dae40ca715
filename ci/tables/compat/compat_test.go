package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/matrix"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	const compiling = "#10 20.47 2026-11-23T09:24:38.874Z compiling driver=535.261.03 flavour=proprietary kernel=6.1.0-56-amd64 " +
		`compiler="gcc 12.2.0" jobs=2 modules="nvidia, nvidia-uvm"` + "\n"
	const begin = "#9 318.9 nvidia-driver: compile driver 535.261.03 for kernel 6.1.0-56-amd64: make failed: exit status 2"
	const end = "; does this driver support this kernel and compiler? whole output in /var/tmp/nvidia-driver/compile.log\n"
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
	} {
		compiler, problem, err := outcome(c.log, c.failed)
		assert.Samef(t, []any{c.compiler, c.err, nil}, []any{compiler, problem, err}, "%q", c.log)
	}
	for _, log := range []string{
		begin + ": x; out of memory: raise the container's memory limit above 1 GiB; whole output in /x\n",
		begin + ": no space left on device; free some space there; whole output in /x\n",
		"package nvidia-kernel-source: no such package\n", "",
	} {
		_, _, err := outcome(log, failed)
		assert.ErrorIsf(t, err, failed, "%q", log)
	}
}

// TestRender: a page has every kind of cell, and what is read of it is what was written.
func TestRender(t *testing.T) {
	t.Parallel()
	old, mid, fresh := kernel{Release: "5.10.0-46-amd64", Version: "5.10.262-1", Compiler: "gcc 10.2.1"}, kernel{Release: "6.1.0-56-amd64", Version: "6.1.192-2"},
		kernel{Release: "6.12.117+deb13-amd64", Version: "6.12.117-1"}
	const closed, open = matrix.Proprietary, matrix.Open
	all := []*cell{
		{"debian11", old, drivers[0], closed, "", "kernel-broken: x", &result{Source: "packages"}},
		{"debian11", old, drivers[1], closed, "", "", nil},
		{"debian12", mid, drivers[0], closed, "", "kernel-too-new: 6.1 | 5.15", &result{Error: "gcc: error: a | b", Source: "archive"}},
		{"debian12", mid, drivers[2], closed, "", "", &result{Error: "nvidia-drm/x.c:1: error: y", Source: "packages"}},
		{"debian12", mid, drivers[3], open, "a, b", "kernel-too-new: z", &result{Source: "packages"}},
		{"debian13", fresh, drivers[4], open, "", "", nil},
	}
	text, differs := render(all)
	goldentest.Compare(t, "testdata/compat.md", text)
	assert.Equalf(t, true, differs, "470 fails on 6.1 here and the matrix allows it")
	_, differs = render(all[:3])
	assert.Equalf(t, false, differs, "these agree, or are not known")
	kernels, results := parse(text)
	assert.Equal(t, old, kernels["debian11"])
	found := 0
	for _, c := range all {
		assert.Samef(t, c.Result, results[c.String()], "%s", c)
		if c.Result != nil {
			found++
		}
	}
	assert.Equal(t, found, len(results))
}

// The real matrix has every system and driver of the table, and the matrices made from it are valid.
func TestMatrices(t *testing.T) {
	t.Parallel()
	const committed = "../../../matrix.yaml"
	m := require.Value(matrix.ReadFile(committed, nil, nil))(t)
	l := &laboratory{work: t.TempDir(), matrix: m, matrixFile: committed}
	run := testfile.Write(t, filepath.Join(l.work, "x.run"), "x")
	for _, d := range drivers {
		require.Value(against(m, &cell{System: d.home, Driver: d, Flavour: matrix.Proprietary, Kernel: kernel{Release: "6.1.0-1-amd64"}}))(t)
		for _, from := range []string{"", run} {
			written := require.Value(matrix.ReadFile(require.Value(l.writeMatrix(d, from))(t), nil, nil))(t)
			for _, flavour := range d.flavours {
				assert.Equalf(t, patchesOf(m, d, flavour), patchesOf(written, d, flavour), "patches of the %s modules of %s", flavour, d.version)
			}
			_, _, packaged := written.Drivers[0].Debian.Wants(d.home, arch)
			assert.Equalf(t, from == "", packaged, "%s from packages", d.version)
			s := matrix.Selection{Systems: []string{d.home}, Drivers: []string{d.version}, AllowIncompatible: true}
			require.Value(written.Select(s))(t)
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
*" open "*)
  echo 'compiling driver=1 flavour=open kernel=6.1 compiler="gcc 12.2.0" jobs=2' >&2
  echo 'compile driver 1 for kernel 6.1: make failed: exit status 2: nvidia-drm/x.c:1: error: y; does this driver support this kernel' >&2
  exit 6 ;;
*) echo 'network' >&2; exit 4 ;;
esac
`

// TestFill: each cell gets its result, and the next run repeats only what had trouble.
func TestFill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &laboratory{
		program: testfile.Write(t, filepath.Join(dir, "driver-build"), standIn), work: dir, bases: map[string]string{"debian12": "oci:x"},
		matrixFile: "../../../matrix.yaml", log: t.Output(),
	}
	l.matrix = require.Value(matrix.ReadFile(l.matrixFile, nil, nil))(t)
	k := require.Value(l.newest(t.Context(), "debian12"))(t)
	assert.Equal(t, kernel{Release: "6.1.0-57-amd64", Flavour: "amd64", Default: true, Version: "6.1.200-1"}, k)
	cells := []*cell{
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Proprietary},
		{System: "debian12", Kernel: k, Driver: drivers[3], Flavour: matrix.Open},
		{System: "debian12", Kernel: k, Driver: drivers[0], Flavour: matrix.Proprietary},
	}
	saved := 0
	save := func() error { saved++; return nil }
	for _, trouble := range []string{"exit status 4: network", "exit status 9"} {
		assert.ErrorContains(t, l.fill(t.Context(), cells, "535.261.03", save), cells[0].String()+": "+trouble)
		for i, want := range []*result{nil, {Error: "nvidia-drm/x.c:1: error: y", Source: "packages"}, nil} {
			assert.Samef(t, want, cells[i].Result, "%s", cells[i])
			assert.Equal(t, "gcc 12.2.0", cells[i].Kernel.Compiler)
		}
		testfile.Write(t, l.program, "#!/bin/sh\nexit 9\n")
	}
	assert.Equalf(t, 3, saved, "the page is written after each compile, and a result is not compiled again")
}
