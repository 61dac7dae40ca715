package support

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// read returns the files of an archive.
func read(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		files[strings.TrimPrefix(h.Name, "nvidia-driver/")] = string(require.Value(io.ReadAll(archive))(t))
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	failed := errors.New("no such thing")
	err := Write(&out, time.Now(), []Part{
		{"whole.txt", func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }},
		{"half.txt", func(w io.Writer) error { _, err := io.WriteString(w, "half"); return errors.Join(err, failed) }},
		{"large.txt", func(w io.Writer) error { _, err := w.Write(make([]byte, maxPart+1)); return err }},
	})
	assert.ErrorIs(t, err, ErrLeftOut)
	files := read(t, &out)
	assert.Equal(t, "text", files["whole.txt"])
	assert.Equal(t, "half", files["half.txt"])
	assert.Equal(t, maxPart, len(files["large.txt"]))
	assert.Equal(t, "half.txt: no such thing\nlarge.txt: larger than 1048576 bytes\n", files["left-out.txt"])
}

// TestMachine: the files of a machine, without what is not about the driver.
func TestMachine(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"proc/driver/nvidia/params":                                      "EnableMSI: 1\n",
		"sys/module/nvidia/parameters/NVreg_OpenRmEnableUnsupportedGpus": "1\n",
		"proc/modules":                               "nvidia 1 0 - Live 0x0 (OE)\next4 2 1 - Live 0x0\n",
		"proc/self/mountinfo":                        "36 35 0:1 / /run/nvidia/driver rw - overlay o rw\n37 35 0:2 / /secret rw - cifs //x rw,password=hunter2\n",
		"proc/1/mountinfo":                           "",
		"proc/cmdline":                               "root=/dev/sda nouveau.modeset=0 token=hunter2\n",
		"proc/1/root/etc/os-release":                 "NAME=Debian\n",
		"sys/bus/pci/devices/0000:05:00.0/vendor":    "0x10de\n",
		"sys/bus/pci/devices/0000:05:00.0/device":    "0x1eb8\n",
		"sys/bus/pci/devices/0000:05:00.0/class":     "0x030200\n",
		"sys/bus/pci/devices/0000:05:00.0/numa_node": "1\n",
		"sys/bus/pci/devices/0000:06:00.0/vendor":    "0x8086\n",
		"sys/bus/pci/devices/0000:06:00.0/device":    "0x1234\n",
		"sys/bus/pci/devices/0000:06:00.0/class":     "0x030000\n",
	} {
		testfile.Write(t, filepath.Join(root, name), text)
	}
	require.NoError(t, os.Mkdir(filepath.Join(state, "log"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(state, "log/compile-x.log"), []byte("cc\x1b[31m\n"), 0o600))
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(state, "log/passwd")))
	var out bytes.Buffer
	_ = Write(&out, time.Now(), Machine(root, state)) // the kernel's log is this machine's: it may be refused
	files := read(t, &out)
	for name, want := range map[string][]string{
		"parameters.txt": {"proc/driver/nvidia/params:\nEnableMSI: 1\n", "NVreg_OpenRmEnableUnsupportedGpus:\n1\n"},
		"modules.txt":    {"nvidia 1 0"},
		"mounts.txt":     {"/run/nvidia/driver"},
		"system.txt":     {"nouveau.modeset=0", "NAME=Debian"},
		"pci.txt":        {"0000:05:00.0 vendor 10de device 1eb8 class 030200", "    numa_node: 1\n"},
		"compile.log":    {"compile-x.log:\ncc?[31m\n"},
	} {
		for _, text := range want {
			assert.Contains(t, files[name], text)
		}
	}
	for name, text := range files {
		for _, never := range []string{"hunter2", "ext4", "06:00.0", "root:"} {
			assert.Equalf(t, false, name != "kernel.log" && strings.Contains(text, never), "%s has %q:\n%s", name, never, text)
		}
	}
}
