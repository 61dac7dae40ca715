package kbuild

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

const (
	release    = kbuildtest.Kernel
	driver     = kbuildtest.Driver
	debianText = kbuildtest.Compiler
)

// bench has fake sources of a driver, headers and programs.
type bench struct {
	job   Job
	tools string // folder of make, strip and gcc
	kos   string // folder from which the fake make takes finished modules
}

// newBench returns a bench whose make is the given script, after lines that set $kos and enter the copied
// sources.
func newBench(t *testing.T, script string) bench {
	t.Helper()
	dir := t.TempDir()
	b := bench{tools: filepath.Join(dir, "tools"), kos: filepath.Join(dir, "kos")}
	for _, name := range []string{"nvidia", "nvidia-uvm"} {
		testfile.Write(t, b.kos+"/"+name+".ko", kbuildtest.Module(strings.ReplaceAll(name, "-", "_"), driver, release))
	}
	source := filepath.Join(dir, "src/kernel")
	testfile.Tree(t, dir, map[string]string{
		"tools/make":  "#!/bin/sh\nkos=" + b.kos + "\ncd \"$2\" || exit 9\n" + script + "\n",
		"tools/strip": "#!/bin/sh\n[ \"$1 $2\" = '-g -o' ] && cp \"$4\" \"$3\"\n", "tools/gcc-12": "#!/bin/sh\necho '" + debianText + "'\n",
		"src/kernel/Makefile": "", "src/kernel/conftest.sh": "#!/bin/sh\n", "src/kernel/nvidia-uvm/uvm.c": "",
		"src/kernel/Kbuild":                    "NV_CONFTEST_TYPE_COMPILE_TESTS ?=\nNV_CONFTEST_FUNCTION_COMPILE_TESTS += one\n",
		"src/kernel/nvidia/nvidia.Kbuild":      "NVIDIA_SOURCES += nvidia/nv.c\nNVIDIA_SOURCES += nvidia/nv-pci.c\n NV_CONFTEST_TYPE_COMPILE_TESTS += two\n",
		"src/kernel/nvidia/nv-kernel.o_binary": "blob", "src/kernel/nvidia/nv-kernel.h": "-> nv-kernel.o_binary",
	})
	work := testfile.Write(t, dir+"/work/", "")
	root := filepath.Join(dir, "root")
	kbuildtest.Headers(t, root+"/usr/src/kernels/"+release, release)
	h := require.Value(buildtree.Find(release, []buildtree.Root{{Dir: root, Name: "image"}}))(t)
	c := require.Value(FindCompiler(context.Background(), h, b.tools))(t)
	b.job = Job{
		Source: source, Driver: driver, Flavour: "proprietary", Kernel: "build-id 1234", Headers: h, Compiler: c, Jobs: 2,
		Modules: []string{"nvidia", "nvidia-uvm"}, Work: filepath.Clean(work), Log: filepath.Join(dir, "log"),
		Limits: Limits{Proc: dir, Cgroup: dir},
	}
	return b
}
