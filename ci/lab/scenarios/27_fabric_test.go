package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/guest"
	"github.com/driver-container/driver-container/node/status"
)

// fabricGuest returns a guest with a GPU and one more PCI function, and a pod with stand-ins for NVIDIA's
// programs.
func fabricGuest(t *testing.T, function gpu.Model) (*lab.Guest, lab.Container) {
	t.Helper()
	lab.Gate(t)
	dir := testfile.Tree(t, t.TempDir(), map[string]string{
		"nvswitch/fabricmanager.cfg": "LOG_LEVEL=4\nDAEMONIZE=0\nFABRIC_MODE=0\n", "nvswitch/dgxh100_hgxh100_topology": "", "nvlsm/nvlsm.conf": "plugin_name grpc_mgr\n",
		"opt/sbin/": "", "opt/lib/": "",
	})
	program := filepath.Join(dir, "nv-fabricmanager")
	require.NoError(t, tool.Build(t.Context(), program, "ci/testkit/fabrictest/standin"))
	f := require.Value(os.OpenFile(program, os.O_APPEND|os.O_WRONLY, 0))(t)
	require.Value(f.WriteString(d535.driver))(t) // as the real one, it holds its version
	require.NoError(t, f.Close())
	tool.Must(t, "cp", program, filepath.Join(dir, "opt/sbin/nvlsm"))
	disk := lab.TreeDisk(t, dir)
	g := stage{gpus: []gpu.Model{gpu.A100, function}, products: map[string]product{"535": d535}, cached: []product{d535},
		edit: func(c *lab.Config) { c.Disks["/standin"] = disk }}.start(t)
	pod := light("535").
		With(guest.Mount{Host: "/standin/nv-fabricmanager", Guest: "/usr/bin/nv-fabricmanager", ReadOnly: true, File: true}).
		With(guest.Mount{Host: "/standin/nvswitch", Guest: "/usr/share/nvidia/nvswitch", ReadOnly: true}).
		With(guest.Mount{Host: "/standin/nvlsm", Guest: "/usr/share/nvidia/nvlsm", ReadOnly: true}).
		With(guest.Mount{Host: "/standin/opt", Guest: "/opt/nvidia/nvlsm", ReadOnly: true})
	return g, pod
}

// An NVSwitch on the bus makes the fabric manager run; without one in the image the check before the start
// names it. While it is down the node is not ready. nvidia.ko probes the switch, asserts because its firmware
// does not answer, and leaves it; the GPU is served.
func Test27FabricSwitch(t *testing.T) {
	g, pod := fabricGuest(t, gpu.NVSwitch)
	g.AllowDmesg(`WARNING: .* nvswitch_os_assert_log\+`)
	fails(t, g, light("535"), 11, time.Minute, `fabric: this node has 1 NVSwitch \(0000:00:06\.0\), and the image lacks /usr/share/nvidia/nvswitch/fabricmanager\.cfg, /usr/bin/nv-fabricmanager`)
	p := ready(t, g, pod)
	st := statusOf(t, g)
	if len(st.Daemons) != 1 || st.Daemons[0].Name != "nvidia-fabricmanager" || !st.Daemons[0].Ready {
		t.Fatalf("%+v", st.Daemons)
	}
	g.Write("/drivers/nv-fabricmanager.mode", "fails\n", 0)
	g.Sh("kill -9 $(cat /run/nvidia/driver/run/nvidia-fabricmanager/nv-fabricmanager.pid)")
	p.WaitLine(logtest.NotReady+`nvidia-fabricmanager is not running: .*error 802`, 20*time.Second)
	g.Eventually(20*time.Second, "the reason is that of its log", func() bool { return strings.Contains(statusOf(t, g).Reason, "it was told to fail") })
	g.Sh("rm -f /drivers/nv-fabricmanager.mode")
	p.WaitLine(logtest.Ready, time.Minute)
	stops(t, p, 0)
	assert.Equalf(t, "", driverLoaded(g), "still loaded")
	contains(t, g.Read("/"+fabrictest.Journal), `nv-fabricmanager configuration LOG_LEVEL=4 FABRIC_MODE=0 DAEMONIZE=1\nnv-fabricmanager has set up the fabric\n`, `nv-fabricmanager stops\n$`)
}

// A ConnectX function whose real vital product data say SMDL=SW_MNG makes NVLSM run, and then the fabric
// manager, on the port whose files are mounted over the guest's.
func Test27FabricNVLink5(t *testing.T) {
	g, pod := fabricGuest(t, gpu.Management)
	contains(t, g.Sh("cat /sys/bus/pci/devices/0000:00:06.0/vpd"), `SMDL=SW_MNG`)
	g.Sh("modprobe ib_umad")
	g.Sh(`d=/fake/infiniband/mlx5_0; mkdir -p $d/ports/1/gids; ln -s /sys/bus/pci/devices/0000:00:06.0 $d/device; cd $d/ports/1
echo InfiniBand > link_layer; echo 0xa751e84a > cap_mask; echo fe80:0000:0000:0000:e09d:7303:00e4:00e8 > gids/0`)
	p := ready(t, g, pod.With(guest.Mount{Host: "/fake/infiniband", Guest: "/sys/class/infiniband", ReadOnly: true}))
	var st status.Snapshot
	if st = statusOf(t, g); len(st.Daemons) != 2 || st.Daemons[0].Name != "nvlsm" || !strings.Contains(st.Daemons[0].Detail, "mlx5_0 port 1, GUID 0xe09d730300e400e8") {
		t.Fatalf("%+v", st.Daemons)
	}
	g.Sh("kill -9 $(pidof nvlsm)")
	p.WaitLine(logtest.NotReady+`nvlsm is not running`, 20*time.Second)
	p.WaitLine(logtest.Ready, time.Minute)
	stops(t, p, 0)
	contains(t, g.Read("/"+fabrictest.Journal), `(?s)nvlsm serves\nnv-fabricmanager starts .*nv-fabricmanager stops\nnvlsm starts .*nvlsm serves\nnv-fabricmanager starts .*nv-fabricmanager stops\nnvlsm stops\n$`)
}
