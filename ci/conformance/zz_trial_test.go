package conformance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
)

func TestZZTrial(t *testing.T) {
	private(t)
	dir, image := Prepare(t), unpacked(t)
	root := tree(t, image)
	for _, d := range []string{"usr/lib/gcc", "usr/include", "usr/share/doc", "var", "usr/src"} {
		must(t, os.RemoveAll(filepath.Join(root, d)))
	}
	must(t, os.MkdirAll(filepath.Join(root, "usr/src/nvidia-"+driver), 0o755))
	g := lab.Start(t, lab.Config{Kernel: lab.Kernel(t, "debian12"), Disks: map[string]string{"/conformance": lab.TreeDisk(t, dir), "/run/nvidia/driver": lab.TreeDisk(t, root)}})
	t.Log(g.Sh("cat /proc/self/mountinfo; for i in 0 1; do mknod /dev/nvidia$i c 195 $i; done; mknod /dev/nvidiactl c 195 255; mknod /dev/nvidia-uvm c 511 0; mknod /dev/nvidia-uvm-tools c 511 1; mknod /dev/nvidia-modeset c 195 254"))
	begin := time.Now()
	r := g.RunFor(5*time.Minute, "/conformance/bin/driver-conformance", "--consumer", "/conformance/consumer", "--driver-version", driver, "--host-dev")
	t.Log(time.Since(begin), r)
	begin = time.Now()
	r = g.RunFor(5*time.Minute, "/conformance/bin/driver-conformance", "--consumer", "/conformance/consumer", "--driver-version", driver, "--host-dev")
	t.Log(time.Since(begin), r.Code)
	t.Log(g.Sh("cat /proc/self/mountinfo | wc -l; ls /sys/fs/cgroup | head -50"))
}
