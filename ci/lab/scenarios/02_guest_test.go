package scenarios

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// The guest itself, as a program other than a test starts it: with KVM where that works; without root for the disk
// of an image, which shows what a runtime would have unpacked; and with an error at once, and nothing left, when QEMU
// is killed.
func Test02Guest(t *testing.T) {
	lab.Gate(t)
	dir := t.TempDir()
	image := require.Value(guest.ImageDisk(t.Context(), oddImage(t), dir))(t)
	again := require.Value(guest.ImageDisk(t.Context(), oddImage(t), dir))(t)
	assert.Equal(t, image.Disk, again.Disk)
	config := lab.Config{
		Kernel: lab.Kernel(t, "debian12"), GPUs: []gpu.Model{gpu.T4, gpu.NVSwitch},
		Images: map[string]guest.Image{"odd": image},
	}.Guest(t)
	config.Accel = ""
	config.Dir = t.TempDir()
	notice := ""
	config.Notify = func(text string) { notice = text }
	g := require.Value(guest.Start(t.Context(), config))(t)
	assert.Equalf(t, g.Accel == guest.TCG, notice != "", "a notice, %q, with %s", notice, g.Accel)
	t.Logf("%s, ready after %s; %s", g.Accel, g.Boot, notice)
	assert.Equal(t, "0x1eb8\n0x22a3\n", run(t, g, "cat /sys/bus/pci/devices/0000:00:0[56].0/device"))
	assert.Contains(t, run(t, g, "/lib64/ld-linux-x86-64.so.2 --help"), "x86-64-v2 (supported")
	assert.Equal(t, odd, run(t, g, "cd /lab/images/odd; find . | sort | xargs stat -c '%A %u:%g %h %t,%T %n'; cat second"))

	flood := require.Value(g.Process(t.Context(), "sh", "-c", `yes "$(printf '\033[2J')"`))(t)
	p := require.Value(g.Hold(t.Context(), "/dev/null"))(t)
	assert.Equal(t, true, p.Running())
	killQEMU(t)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	assert.ErrorContains(t, assert.Err(p.Wait(short)), "the guest is gone")
	assert.ErrorContains(t, assert.Err(g.Run(short, "true")), "the guest is gone")
	assert.Equalf(t, false, flood.Running() || strings.Contains(flood.Output(), "\x1b"), "the flood's output is cleaned, and ends")
	assert.Errorf(t, g.Close(short), "a guest that was killed powers off")
	assert.Equalf(t, 0, len(require.Value(os.ReadDir(config.Dir))(t)), "what is left")
}

// odd is what a runtime unpacks of oddImage, and the file system's own folder.
const odd = `drwxr-xr-x 0:0 4 0,0 .
drwx------ 0:0 2 0,0 ./lost+found
crw-rw-rw- 0:0 1 1,3 ./null
drwxr-xr-x 0:0 2 0,0 ./opaque
-rw-r--r-- 0:0 1 0,0 ./opaque/new
-rwsr-xr-x 1000:2000 3 0,0 ./program
-rwsr-xr-x 1000:2000 3 0,0 ./second
lrwxrwxrwx 0:0 1 0,0 ./target
-rwsr-xr-x 1000:2000 3 0,0 ./third
content
`

// oddImage has what is not a file, and a second layer that hides and links to things of the first.
func oddImage(t *testing.T) v1.Image {
	t.Helper()
	lower := tarOf(t, tar.Header{Name: "opaque/old", Mode: 0o644},
		tar.Header{Name: "program", Mode: 0o4755, Uid: 1000, Gid: 2000, Size: 7},
		tar.Header{Name: "second", Typeflag: tar.TypeLink, Linkname: "program"},
		tar.Header{Name: "null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "target", Typeflag: tar.TypeSymlink, Linkname: "/nowhere"},
		tar.Header{Name: "gone", Mode: 0o644})
	upper := tarOf(t, tar.Header{Name: "opaque/new", Mode: 0o644}, tar.Header{Name: "opaque/.wh..wh..opq"},
		tar.Header{Name: ".wh.gone"}, tar.Header{Name: "third", Typeflag: tar.TypeLink, Linkname: "second"})
	return imagetest.Image(t, "amd64", v1.Config{}, lower, upper)
}

func tarOf(t *testing.T, members ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, member := range members {
		require.NoError(t, w.WriteHeader(&member))
		require.Value(w.Write([]byte("content")[:member.Size]))(t)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func run(t *testing.T, g *guest.Guest, script string) string {
	t.Helper()
	result := require.Value(g.Run(t.Context(), "sh", "-c", script))(t)
	assert.Equalf(t, 0, result.Code, "%s", result)
	return result.Output
}

// killQEMU kills the children of this process that are QEMU.
func killQEMU(t *testing.T) {
	t.Helper()
	killed := 0
	for _, file := range require.Value(filepath.Glob("/proc/self/task/*/children"))(t) {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		require.NoError(t, err)
		for pid := range strings.FieldsSeq(string(text)) {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%s/comm", pid)) //nolint:errcheck // it has ended
			if strings.HasPrefix(string(name), "qemu-system") {
				require.NoError(t, syscall.Kill(require.Value(strconv.Atoi(pid))(t), syscall.SIGKILL))
				killed++
			}
		}
	}
	assert.Equalf(t, 1, killed, "QEMUs")
}
