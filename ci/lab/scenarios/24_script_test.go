package scenarios

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/require"
)

// scriptVariable names a file: the script nvidia-driver of NVIDIA's own driver container for Debian
// (debian13/nvidia-driver of the repository NVIDIA/gpu-driver-container). It is not part of this project.
const scriptVariable = "DRIVER_NVIDIA_SCRIPT"

// The same random kills of NVIDIA's script, unchanged, in the same guest. Stand-ins take the place of apt-get
// and of the .run archive: they copy modules that were compiled before, as this project's driver takes them
// from its cache. What the script does is a result and no failure: docs/testing.md compares it.
func Test24Script(t *testing.T) {
	path := os.Getenv(scriptVariable)
	if path == "" {
		t.Skip(scriptVariable + " does not name NVIDIA's script, see docs/testing.md")
	}
	script := require.Value(os.ReadFile(path))(t)
	lab.Gate(t)
	t.Parallel()
	g := killGuest(t)
	before := look(g)
	standIns(g, string(script))
	k := &kills{t: t, g: g, pod: scriptPod, up: "^Done, now waiting for signal$", tree: []string{"process 1", "child"}, theirs: true, before: before}
	k.measure()
	var all []outcome
	for i := range *killStarts {
		o := k.round(i)
		all = append(all, o)
		t.Log(o)
		if o.after != "" && o.after != stopped {
			k.reset()
		}
	}
	t.Logf("seed %d\n%s", *killSeed, tableOf(all))
}

// scriptPod returns the pod as the GPU Operator starts it.
func scriptPod(n int) lab.Container {
	return lab.Container{
		Image: "535", Command: []string{"/theirs/nvidia-driver", "init", "--accept-license"}, Dir: "/theirs", PodUID: killPods[n],
		Env: []string{"PATH=/theirs/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DRIVER_VERSION=" + d535.driver, "DRIVER_BRANCH=535",
			"DRIVER_TYPE=passthrough", "TARGETARCH=amd64", "KERNEL_MODULE_TYPE=proprietary"},
		Mounts: []lab.Mount{
			{Host: "/run/nvidia", Guest: "/run/nvidia", Shared: true},
			{Host: "/theirs", Guest: "/theirs", ReadOnly: true},
			{Host: "/var/log", Guest: "/var/log"},
		},
	}
}

// standIns writes the script and what it calls. The kernel's own modules are those that the driver needs.
func standIns(g *lab.Guest, script string) {
	g.Write("/theirs/nvidia-driver", script, 0o755)
	g.Write("/theirs/bin/apt-cache", "#!/bin/sh\necho 'Version: 6.1.0-1'\n", 0o755)
	g.Write("/theirs/bin/apt-get", `#!/bin/sh
[ "$2" = install ] || exit 0
k=$(uname -r)
mkdir -p /usr/src/linux-headers-$k /usr/src/linux-headers-${k%-*}-common /boot
touch /usr/src/linux-headers-${k%-*}-common/Makefile /boot/vmlinuz-$k
cp /theirs/kernel/*.ko /usr/lib/modules/$k/
`, 0o755)
	g.Write(fmt.Sprintf("/theirs/NVIDIA-Linux-x86_64-%s.run", d535.driver), `k=$(uname -r)
cp /theirs/modules/*.ko /usr/lib/modules/$k/ && depmod $k
`, 0o644)
	g.Sh(`mkdir -p /theirs/kernel /theirs/modules; cp /seed/*/*/*.ko /theirs/modules
		for m in i2c_core ipmi_msghandler ipmi_devintf drm drm_kms_helper video; do modprobe -D $m; done 2>/dev/null |
			awk '$1 == "insmod" {print $2}' | while read -r f; do cp $f /theirs/kernel/; done`)
}

// reset removes by hand what the script left.
func (k *kills) reset() {
	for _, m := range slices.Backward(k.g.MountsBelow("/run/nvidia/driver")) {
		k.g.Sh("umount -l " + m.Point)
	}
	k.g.Sh("for m in nvidia_modeset nvidia_uvm nvidia; do [ ! -d /sys/module/$m ] || rmmod $m; done; rm -f /run/nvidia/nvidia-driver.pid")
	if left := k.left(); left != "" {
		k.t.Fatalf("not even by hand: %s", left)
	}
}
