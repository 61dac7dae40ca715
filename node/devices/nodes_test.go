package devices

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const majors = `Character devices:
  1 mem
195 nvidia
195 nvidiactl
195 nvidia-modeset
234 nvidia-nvswitch
235 nvidia-nvlink
236 nvidia-caps-imex-channels
237 nvidia-caps
511 nvidia-uvm

Block devices:
  7 nvidia-uvm
`

func informationText(minor int, excluded string) string {
	return fmt.Sprintf("Model: \t\t Tesla T4\nIRQ:   \t\t 11\nGPU UUID: \t GPU-????????\nVideo BIOS: \t ??.??.??.??.??\nBus Type: \t PCIe\n"+
		"Bus Location: \t 0000:05:00.0\nDevice Minor: \t %d\nGPU Excluded:\t %s\n", minor, excluded)
}

// loaded is a node with the whole driver loaded: two GPUs, one more that is excluded, MIG capabilities, a
// switch.
func loaded(t *testing.T) Nodes {
	t.Helper()
	tool.AsRoot(t, "for device nodes")
	n := Nodes{t.TempDir(), t.TempDir(), t.TempDir()}
	require.NoError(t, os.Chmod(n.Dev, 0o755))
	for name, text := range map[string]string{
		"devices":              majors,
		"driver/nvidia/params": "ModifyDeviceFiles: 1\nDeviceFileUID: 3\nDeviceFileGID: 4\nDeviceFileMode: 432\nRmMsg: \"\"\n",
		"driver/nvidia/gpus/0000:05:00.0/information":             informationText(0, "No"),
		"driver/nvidia/gpus/0000:06:00.0/information":             informationText(2, "No"),
		"driver/nvidia/gpus/0000:07:00.0/information":             informationText(3, "Yes"),
		"driver/nvidia/capabilities/mig/config":                   "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
		"driver/nvidia/capabilities/mig/monitor":                  "DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 0\n",
		"driver/nvidia/capabilities/gpu0/mig/gi1/access":          "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
		"driver/nvidia-nvlink/permissions":                        "DeviceFileMode: 438\n",
		"driver/nvidia-nvlink/capabilities/fabric-mgmt":           "DeviceFileMinor: 0\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
		"driver/nvidia-nvswitch/permissions":                      "DeviceFileMode: 438\n",
		"driver/nvidia-nvswitch/devices/0000:c1:00.0/information": "BIOS Version: N/A\n",
	} {
		testfile.Write(t, filepath.Join(n.Proc, name), text)
	}
	return n
}

// dev lists a /dev: nodes with mode, owner and numbers, links with targets.
func dev(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		found[rel] = fmt.Sprintf("%o %d:%d %d:%d", st.Mode&0o777, st.Uid, st.Gid, unix.Major(st.Rdev), unix.Minor(st.Rdev))
		if target, err := os.Readlink(p); err == nil {
			found[rel] = target
		} else if !d.Type().IsRegular() && st.Mode&unix.S_IFMT != unix.S_IFCHR {
			found[rel] = "something else"
		}
		return nil
	}))
	return found
}

var complete = map[string]string{
	"nvidiactl": "660 3:4 195:255", "nvidia0": "660 3:4 195:0", "nvidia2": "660 3:4 195:2", "nvidia-modeset": "660 3:4 195:254",
	"nvidia-uvm": "660 3:4 511:0", "nvidia-uvm-tools": "660 3:4 511:1", "nvidia-nvlink": "666 0:0 235:0",
	"nvidia-nvswitchctl": "666 0:0 234:255", "nvidia-nvswitch0": "666 0:0 234:0",
	"nvidia-caps/nvidia-cap0": "400 0:0 237:0", "nvidia-caps/nvidia-cap1": "400 0:0 237:1", "nvidia-caps/nvidia-cap12": "444 0:0 237:12",
	"char/195:255": "../nvidiactl", "char/195:0": "../nvidia0", "char/195:2": "../nvidia2", "char/195:254": "../nvidia-modeset",
	"char/511:0": "../nvidia-uvm", "char/511:1": "../nvidia-uvm-tools", "char/235:0": "../nvidia-nvlink",
	"char/234:255": "../nvidia-nvswitchctl", "char/234:0": "../nvidia-nvswitch0",
	"char/237:0": "../nvidia-caps/nvidia-cap0", "char/237:1": "../nvidia-caps/nvidia-cap1", "char/237:12": "../nvidia-caps/nvidia-cap12",
}

// create returns what Create recorded.
func create(t *testing.T, n Nodes) (recorded []Node) {
	t.Helper()
	require.NoError(t, n.Create(t.Context(), func(missing []Node) { recorded = missing }))
	return recorded
}

// Device files whose record is lost go when no driver is there, whatever their kind; what has another name, another driver's major or is no
// device stays.
func TestOrphans(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	create(t, n)
	assert.Equalf(t, 0, len(n.Orphans()), "beside a driver")
	testfile.Write(t, filepath.Join(n.Proc, "devices"), "Character devices:\n  1 mem\n511 drm\n\nBlock devices:\n237 nvme\n")
	for name, major := range map[string]uint32{"nvidia7x": 195, "null": 1, "nvidia1": 1, "gdrdrv": 236} {
		require.NoError(t, unix.Mknod(filepath.Join(n.Dev, name), unix.S_IFCHR|0o600, int(unix.Mkdev(major, 3))))
	}
	testfile.Write(t, filepath.Join(n.Dev, "nvidia3"), "a file")
	require.NoError(t, n.Remove(n.Orphans()))
	want := []string{"char/511:0", "char/511:1", "null", "nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidia3", "nvidia7x"}
	assert.Same(t, want, slices.Sorted(maps.Keys(dev(t, n.Dev))))
}

func TestCreateKeepsAndReplaces(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	at := func(name string) string { return filepath.Join(n.Dev, name) }
	mknod := func(name string, major, minor uint32) {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o755))
		require.NoError(t, unix.Mknod(at(name), unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))))
	}
	mknod("nvidiactl", 195, 255) // right: kept with its mode
	mknod("nvidia-uvm", 509, 0)  // of an earlier load
	testfile.Write(t, at("nvidia0"), "a regular file")
	require.NoError(t, os.Symlink("nvidiactl", at("nvidia2")))
	mknod("elsewhere", 195, 254)
	require.NoError(t, os.MkdirAll(at("char"), 0o755))
	require.NoError(t, os.Symlink("../elsewhere", at("char/195:254"))) // leads to the right device: kept
	require.NoError(t, os.Symlink("/run/nvidia/driver/dev/nvidia0", at("char/195:0")))

	created := create(t, n)
	want := map[string]string{"elsewhere": "600 0:0 195:254"}
	maps.Copy(want, complete)
	want["nvidiactl"], want["char/195:254"] = "600 0:0 195:255", "../elsewhere"
	assert.Same(t, want, dev(t, n.Dev))
	assert.Equal(t, 0, len(create(t, n)))
	// What others put in place since then stays, and what existed before stays, too.
	require.NoError(t, os.Remove(at("nvidia2")))
	testfile.Write(t, at("nvidia2"), "theirs")
	require.NoError(t, n.Remove(created))
	assert.Same(t, []string{"char", "elsewhere", "nvidia2", "nvidiactl"}, testfile.List(t, n.Dev))
	assert.Same(t, []string{"195:254"}, testfile.List(t, at("char")))
}

func TestCreateOlderDrivers(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	testfile.Write(t, filepath.Join(n.Proc, "devices"), "Character devices:\n195 nvidia-frontend\n")
	require.NoError(t, os.RemoveAll(filepath.Join(n.Proc, "driver/nvidia/gpus")))
	require.NoError(t, os.Remove(filepath.Join(n.Proc, "driver/nvidia/params")))
	create(t, n)
	want := map[string]string{"nvidiactl": "666 0:0 195:255", "char/195:255": "../nvidiactl"}
	assert.Same(t, want, dev(t, n.Dev))
	require.NoError(t, os.MkdirAll(filepath.Join(n.Sys, "module/nvidia_modeset"), 0o755))
	if created := create(t, n); len(created) != 1 || created[0].Minor != 254 {
		t.Errorf("with nvidia-modeset: %+v", created)
	}
}

func TestCreateLeavesAlone(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	testfile.Write(t, filepath.Join(n.Proc, "devices"), "Character devices:\n195 nvidia\n511 nvidia-uvm\n")
	testfile.Write(t, filepath.Join(n.Proc, "driver/nvidia/params"), "ModifyDeviceFiles: 0\n")
	if created := create(t, n); len(created) > 0 || len(testfile.List(t, n.Dev)) > 0 {
		t.Errorf("created %+v", created)
	}
}

func TestCreateFails(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var created []Node
	record := func(missing []Node) { created = missing }
	assert.ErrorIsf(t, n.Create(ctx, record), context.Canceled, "cancelled")
	require.NoError(t, os.MkdirAll(filepath.Join(n.Dev, "nvidia-uvm"), 0o755)) // a folder cannot be replaced by a node
	assert.Errorf(t, n.Create(t.Context(), record), "a folder in the way")
	require.NoError(t, n.Remove(created))
	assert.Samef(t, []string{"char", "nvidia-uvm"}, testfile.List(t, n.Dev), "left")
	testfile.Write(t, filepath.Join(n.Proc, "driver/nvidia/gpus/0000:05:00.0/information"), "Device Minor: many\n")
	assert.Errorf(t, n.Create(t.Context(), record), "a minor that is no number was accepted")
	testfile.Write(t, filepath.Join(n.Proc, "devices"), "Character devices:\n  1 mem\n")
	assert.ErrorIsf(t, n.Create(t.Context(), record), ErrNoDriver, "no module")
}

func TestRemoveStaysInside(t *testing.T) {
	t.Parallel()
	n := loaded(t)
	other := filepath.Join(t.TempDir(), "null")
	require.NoError(t, unix.Mknod(other, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	for _, node := range []Node{
		{Path: other, Major: 1, Minor: 3, Made: true},
		{Path: filepath.Join(n.Dev, "x"), Major: 1, Minor: 3, Link: other},
		{Path: filepath.Join(n.Dev, "null"), Major: 1, Minor: 3, Made: true},
		{Path: filepath.Join(n.Dev, "nvidia0"), Major: 1, Minor: 3, Made: true},
		{Path: filepath.Join(n.Dev, "nvidia-uvm"), Major: 1, Minor: 3, Made: true}, // a name of NVIDIA's with numbers that /proc/devices gives to others
	} {
		if err := unix.Mknod(node.Path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
			assert.ErrorIs(t, err, fs.ErrExist)
		}
		assert.Errorf(t, n.Remove([]Node{node}), "%+v was accepted", node)
	}
	assert.NoError(t, assert.Err(os.Lstat(other)))
	assert.Same(t, []string{"null", "nvidia-uvm", "nvidia0", "x"}, testfile.List(t, n.Dev))
}

func FuzzParseMajors(f *testing.F) {
	f.Add([]byte(majors))
	f.Add([]byte("Character devices:\n99999999999 nvidia\n-1 nvidia-uvm\nnvidia"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, major := range parseMajors(text) {
			assert.Equalf(t, false, major > 4095, "%q: %d", name, major)
		}
	})
}

func FuzzParseInformation(f *testing.F) {
	f.Add([]byte(informationText(0, "No")))
	f.Add([]byte("Device Minor: 4294967296\nGPU Excluded: Yes"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if minor, _, err := parseInformation(text); err == nil && minor > maxMinor {
			t.Errorf("minor %d", minor)
		}
	})
}

func FuzzParseCapability(f *testing.F) {
	f.Add([]byte("DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n"))
	f.Add([]byte("DeviceFileMinor: 1\nDeviceFileMode: 4294967295"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := parseCapability(text); err == nil && (c.minor > maxMinor || c.mode > 0o777) {
			t.Errorf("accepted %+v", c)
		}
		if o := parseOwner(parseFields(text)); o.mode > 0o777 || o.uid < 0 || o.gid < 0 {
			t.Errorf("owner %+v", o)
		}
	})
}
