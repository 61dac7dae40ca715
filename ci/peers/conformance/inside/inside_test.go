package inside

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const spec = `{"cdiVersion":"0.3.0","kind":"management.nvidia.com/gpu",
"devices":[{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/nvidiactl","major":195,"minor":255},{"path":"/dev/nvidia0","hostPath":"/run/nvidia/driver/dev/nvidia0"}]}}],
"containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"],
"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["nvidia-cdi-hook","create-symlinks","--link","libcuda.so.535.1::/usr/lib/libcuda.so.1","--link"]},{"hookName":"x"}],
"mounts":[
{"hostPath":"/r/usr/bin/nvidia-smi","containerPath":"/usr/bin/nvidia-smi"},
{"hostPath":"/r/usr/lib/libcuda.so.535.1","containerPath":"/usr/lib/libcuda.so.535.1"},
{"hostPath":"/r/lib/firmware/nvidia/535.1/gsp_tu10x.bin","containerPath":"/lib/firmware/nvidia/535.1/gsp_tu10x.bin"},
{"hostPath":"/r/run/nvidia-persistenced/socket","containerPath":"/run/nvidia-persistenced/socket"}]}}`

func TestInventory(t *testing.T) {
	t.Parallel()
	s := require.Value(ParseSpec([]byte(spec)))(t)
	want := Inventory{
		Devices: []string{"/dev/nvidia0", "/dev/nvidiactl"}, Libraries: []string{"libcuda.so.535.1"},
		Links: []string{"libcuda.so.VERSION::/usr/lib/libcuda.so.1"}, Binaries: []string{"nvidia-smi"},
		Firmware: []string{"gsp_tu10x.bin"}, Other: []string{"/run/nvidia-persistenced/socket"}, Hooks: []string{"create-symlinks"},
	}
	assert.Same(t, want, s.Inventory("535.1"))
}

func TestParseSpecRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", "{", `{"kind":"x"}`, `{"cdiVersion":"1"}`, `{"cdiVersion":1,"kind":"x"}`} {
		if s, err := ParseSpec([]byte(text)); err == nil {
			t.Errorf("ParseSpec(%q) = %+v, want an error", text, s)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(spec))
	f.Add([]byte(`{"cdiVersion":"1","kind":"k","devices":[null],"containerEdits":null}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if s, err := ParseSpec(data); err == nil {
			s.Inventory("535.1")
		}
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	log := `time="2026-11-21T00:27:01Z" level=warning msg="Missing libnvidia-nvvm70.so.*"
time="x" level=info msg="Using driver version 535.261.03"
time="x" level=warning msg="Missing libnvidia-nvvm70.so.*"
time="x" level=error msg="failed: \"a\"\nb" more=1
time="x" level=warning msg=short
time="x" level=warning
level=warning msg="no end
free text
`
	want := []string{"Missing libnvidia-nvvm70.so.*", "failed: \"a\"\nb", "short", `"no end`}
	got := Warnings([]byte(log))
	assert.Same(t, want, got)
	c := Client{Warnings: append(got, "1", "2", "3", "4", "5", "6", "7", "Could not locate nvidia-imex: x")}
	c.judge()
	if want := []string{"it warns: failed: \"a\"; b", "it warns: short", "it warns: \"no end", "it warns: 1", "it warns: 2", "it warns: 3", "it warns: 4", "it warns: 5", "and 2 warnings more"}; !cmp.Equal(want, c.Problems) {
		t.Error(cmp.Diff(want, c.Problems))
	}
}

func FuzzWarnings(f *testing.F) {
	f.Add([]byte(`level=warning msg="a\n\"b\""`))
	f.Fuzz(func(_ *testing.T, data []byte) { Warnings(data) })
}

// Expectations come from the files of the root alone.
func TestExpect(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{
		"usr/lib/x86_64-linux-gnu/libcuda.so.535.1", "usr/lib/x86_64-linux-gnu/libcuda.so.470.2", "usr/lib/x86_64-linux-gnu/libz.so.1",
		"usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.535.1", "usr/lib/x86_64-linux-gnu/nvidia/current/libnvoptix.so.535.1",
		"usr/bin/nvidia-debugdump", "usr/share/nvidia-driver/firmware/nvidia/535.1/gsp_tu10x.bin", "usr/lib/firmware/nvidia/535.1/gsp_tu10x.bin",
		"usr/lib/firmware/nvidia/535.1/README",
	} {
		testfile.Write(t, root+"/"+name, "")
	}
	require.NoError(t, os.Symlink("usr/lib", filepath.Join(root, "lib")))
	got := require.Value(Expect(root, "535.1"))(t)
	want := Inventory{
		Libraries: []string{"libcuda.so.535.1", "libnvidia-ml.so.535.1", "libvdpau_nvidia.so.535.1"},
		Binaries:  []string{"nvidia-debugdump", "nvidia-smi"}, Firmware: []string{"gsp_tu10x.bin"},
	}
	assert.Same(t, want, got)
	c := Client{Found: Inventory{Libraries: []string{"libcuda.so.470.2", "libvdpau_nvidia.so.535.1"}, Binaries: want.Binaries, Firmware: want.Firmware}}
	c.compare(want, "535.1")
	if want := []string{"2 of 3 libraries are not found: libcuda.so.535.1 libnvidia-ml.so.535.1", "libcuda.so.470.2 is of another version than 535.1"}; !cmp.Equal(want, c.Problems) {
		t.Error(cmp.Diff(want, c.Problems))
	}
}

// The output of the script in the container is read strictly: missing output is a problem.
func TestInspect(t *testing.T) {
	t.Parallel()
	good := "library libcuda.so.1\nlibrary libnvidia-ml.so.1\ndevice /dev/nvidiactl: cannot open /dev/nvidiactl: No such device or address\nNVIDIA-SMI has failed\nsmi 9\nend\n"
	for _, c := range []struct {
		name, loaded, output string
		problems             int
	}{
		{"no module", "", "x\n" + good, 0},
		{"no module although one is loaded", "535.1", "x\n" + good, 1},
		{"no device", "535.1", "x\nlibrary libcuda.so.1\nlibrary libnvidia-ml.so.1\ndevice /dev/nvidiactl: ok\nsmi 6\nend\n", 0},
		{"nothing", "", "\nend\n", 4},
		{"refused", "", "x\nlibrary libcuda.so.1\nlibrary libnvidia-ml.so.1\nbroken libcuda.so.1: no\ndevice /dev/nvidia0: Operation not permitted\nsmi 9\nend\n", 2},
	} {
		var got Client
		session{Report: &Report{Loaded: c.loaded}}.inspect(&got, c.output)
		if len(got.Problems) != c.problems {
			t.Errorf("%s: %d problems, want %d: %q", c.name, len(got.Problems), c.problems, got.Problems)
		}
	}
}
