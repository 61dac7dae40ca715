package fabric

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/devices"
)

func TestMain(m *testing.M) {
	if code, played := fabrictest.Main(os.Args); played {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// The parts of a machine as files: path below a temporary folder -> content.
var (
	image = map[string]string{
		"root/" + topologyDir + "/dgxh100_hgxh100_topology": "",
		"root/" + fmConfig: "# fabric manager\nLOG_LEVEL=4\nDAEMONIZE=0\nFABRIC_MODE=0\n", "root/" + smConfig: "plugin_name grpc_mgr\n",
		"root/" + fmProgram: "-> " + os.Args[0], "root/" + smProgram: "-> " + os.Args[0], "root/" + imexProgram: "-> " + os.Args[0],
		"drivers/": "", "dev/": "", "root/var/log/": "",
	}
	modules = map[string]string{"sys/module/mlx5_core/": "", "sys/module/mlx5_ib/": "", "sys/module/ib_umad/": ""}
)

// function is a PCI function.
func function(address, vendor, device, class string) map[string]string {
	dir := "sys/bus/pci/devices/" + address + "/"
	return map[string]string{dir + "vendor": vendor + "\n", dir + "device": device + "\n", dir + "class": class + "\n"}
}

func nvswitch(address string) map[string]string {
	return function(address, "0x10de", "0x22a3", "0x068000")
}

// vpd is vital product data as a card has them: name, read-only fields, end.
func vpd(fields string) string {
	block := "PN\x05ABCDEV0" + string(rune(len(fields))) + fields
	return "\x82\x04\x00card\x90" + string(rune(len(block))) + "\x00" + block + "\x78"
}

// card is a ConnectX function with an InfiniBand device and its ports' capability masks and GIDs.
func card(address, device, data string, ports ...string) map[string]string {
	files := function(address, "0x15b3", "0x1021", "0x020700")
	files["sys/bus/pci/devices/"+address+"/vpd"] = data
	if device == "" {
		return files
	}
	files["sys/class/infiniband/"+device+"/device"] = "-> ../../../bus/pci/devices/" + address
	for i, p := range ports {
		mask, gid, _ := strings.Cut(p, " ")
		dir := fmt.Sprintf("sys/class/infiniband/%s/ports/%d/", device, i+1)
		files[dir+"cap_mask"], files[dir+"gids/0"], files[dir+"link_layer"] = mask+"\n", gid+"\n", "InfiniBand\n"
	}
	return files
}

const (
	usable   = "0xa751e84a fe80:0000:0000:0000:e09d:7303:00e4:00e8" // of a DGX B200
	disabled = "0xa751ec4a fe80:0000:0000:0000:e09d:7303:00e4:00e9"
	guid     = "0xe09d730300e400e8"
)

var management = vpd("SMDL=SW_MNG")

func join(all ...map[string]string) map[string]string {
	sum := map[string]string{}
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

// machine makes an image and a machine under one folder.
func machine(t *testing.T, files ...map[string]string) Facts {
	t.Helper()
	dir := testfile.Tree(t, t.TempDir(), join(files...))
	f := Facts{
		Root: filepath.Join(dir, "root"), Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"),
		Work: filepath.Join(dir, "work"), Drivers: filepath.Join(dir, "drivers"), Wait: 300 * time.Millisecond,
	}
	f.Machine = require.Value(Detect(f.Sys, nil))(t)
	return f
}

func gpu(device uint16) devices.GPU {
	return devices.GPU{Address: "0000:17:00.0", Vendor: devices.NVIDIA, Device: device}
}
