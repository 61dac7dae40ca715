package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const version = "580.95.05"

// query and usage are what nvidia-smi prints to driver-probe's fallback.
const (
	query = "GPU-11111111-2222-3333-4444-555555555555, NVIDIA H200, 00000000:05:00.0, " + version + "\n"
	usage = "GPU-11111111-2222-3333-4444-555555555555, NVIDIA H200, 00000000:05:00.0, " + version + ", 143771, 573, 41\n"
)

// programs compiles the stand-ins and builds the real driver-probe, once.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "gpu-test-*"); err != nil {
		return "", err
	}
	folder = dir
	// Go repeats a test when a file or folder that it opened changes: it does not see what a compiler opens.
	for _, sources := range []string{"../../../cmd/driver-probe", "testdata"} {
		if _, err := os.ReadDir(sources); err != nil {
			return dir, err
		}
	}
	const tags = `-DVERSION="` + version + `"`
	for _, command := range [][]string{
		{"go", "build", "-ldflags=-w", "-buildvcs=false", "-o", dir, "../../../cmd/driver-probe"},
		{"go", "build", "-ldflags=-w", "-buildvcs=false", "-o", dir + "/gpu-check", "."},
		{"cc", "-shared", "-fPIC", "-O1", "-w", tags, "-Wl,-soname,libnvidia-ml.so.1", "-o", dir + "/libnvidia-ml.so", "testdata/nvml.c"},
		{"cc", "-O1", "-w", tags, "-o", dir + "/nvidia-smi", "testdata/nvidia-smi.c"},
	} {
		if _, err := tool.Run(context.Background(), "", []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"}, command...); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// folder is where programs put them, "" before its first call.
var folder string

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// standIn makes a folder that looks like a machine with an H200, its driver in the folder of providers that
// mount it into containers. Data is what nvidia-smi prints. devices says whether /dev/nvidia0 could be made.
func standIn(t *testing.T) (m machine, data string, devices bool) {
	t.Helper()
	built, err := programs()
	require.NoError(t, err)
	root := t.TempDir()
	data = filepath.Join(root, "data")
	m = machine{root: root, programs: filepath.Join(root, "programs"), timeout: time.Minute}
	write := func(name, text string) { testfile.Write(t, filepath.Join(root, name), text) }
	for name, text := range map[string]string{
		"proc/driver/nvidia/version":                        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version + "  Release Build  (a@b)\nGCC version: 12\n",
		"proc/driver/nvidia/gpus/0000:05:00.0/information":  "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\nDevice Minor: \t 0\nGPU Excluded:\t No\n",
		"proc/sys/kernel/osrelease":                         "6.18.44\n",
		"proc/modules":                                      "nvidia 1 0 - Live 0x0\n",
		"sys/module/nvidia/version":                         version + "\n",
		"sys/module/nvidia/refcnt":                          "0\n",
		"sys/module/nvidia/initstate":                       "live\n",
		"sys/bus/pci/devices/0000:05:00.0/vendor":           "0x10de\n",
		"sys/bus/pci/devices/0000:05:00.0/device":           "0x2335\n",
		"sys/bus/pci/devices/0000:05:00.0/subsystem_vendor": "0x10de\n",
		"sys/bus/pci/devices/0000:05:00.0/subsystem_device": "0x18be\n",
		"sys/bus/pci/devices/0000:05:00.0/class":            "0x030200\n",
		"sys/bus/pci/devices/0000:05:00.0/config":           "\xde\x10\x35\x23 rest",
		"sys/bus/pci/devices/0000:05:00.0/resource":         "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n",
		"sys/bus/pci/drivers/nvidia/module":                 "",
		"data/query.csv":                                    query, "data/usage.csv": usage,
	} {
		write(name, text)
	}
	require.NoError(t, os.Symlink("../../drivers/nvidia", filepath.Join(root, "sys/bus/pci/devices/0000:05:00.0/driver")))
	report := require.Value(os.ReadFile("testdata/smi.xml"))(t)
	write("data/smi.xml", string(report))
	const libs = "usr/local/nvidia/lib64/"
	nvml := require.Value(os.ReadFile(filepath.Join(built, "libnvidia-ml.so")))(t)
	write(libs+"libnvidia-ml.so."+version, string(nvml))
	require.NoError(t, os.Symlink("libnvidia-ml.so."+version, filepath.Join(root, libs+"libnvidia-ml.so.1")))
	write("usr/local/nvidia/bin/nvidia-smi", string(require.Value(os.ReadFile(filepath.Join(built, "nvidia-smi")))(t)))
	require.NoError(t, os.Chmod(filepath.Join(root, "usr/local/nvidia/bin/nvidia-smi"), 0o755))
	require.NoError(t, os.Mkdir(m.programs, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(built, "driver-probe"), filepath.Join(m.programs, "driver-probe")))
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	return m, data, unix.Mknod(filepath.Join(root, "dev/nvidia0"), unix.S_IFCHR|0o666, int(unix.Mkdev(195, 0))) == nil
}
