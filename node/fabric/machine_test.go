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

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/fabrictest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/node/devices"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []map[string]string
		gpus  []devices.GPU
		want  string
		runs  bool
	}{
		"nothing":         {want: "no NVLink switches"},
		"a GPU":           {files: []map[string]string{function("0000:17:00.0", "0x10de", "0x2330", "0x030200")}, want: "no NVLink switches"},
		"another bridge":  {files: []map[string]string{function("0000:05:00.0", "0x8086", "0x1234", "0x068000")}, want: "no NVLink switches"},
		"a switch":        {files: []map[string]string{nvswitch("0000:05:00.0")}, want: "1 NVSwitch (0000:05:00.0)", runs: true},
		"switches":        {files: []map[string]string{nvswitch("0000:06:00.0"), nvswitch("0000:05:00.0")}, want: "2 NVSwitches (0000:05:00.0, 0000:06:00.0)", runs: true},
		"a lent switch":   {files: []map[string]string{nvswitch("0000:05:00.0"), {"sys/bus/pci/devices/0000:05:00.0/driver": "-> ../../../drivers/vfio-pci"}}, want: "1 NVSwitch (0000:05:00.0), lent to a virtual machine (vfio-pci)"},
		"a network card":  {files: []map[string]string{card("0000:05:00.0", "mlx5_0", vpd("MN=MLNX"), usable)}, want: "no NVLink switches"},
		"no VPD":          {files: []map[string]string{function("0000:05:00.0", "0x15b3", "0x1021", "0x020700")}, want: "no NVLink switches"},
		"NVLink 5":        {files: []map[string]string{card("0000:05:00.0", "mlx5_0", management, usable)}, want: "NVLink 5 switches, managed through 1 ConnectX function (0000:05:00.0)", runs: true},
		"without drivers": {files: []map[string]string{card("0000:05:00.0", "", management)}, want: "NVLink 5 switches, managed through 1 ConnectX function (0000:05:00.0)", runs: true},
		"a virtual function": {files: []map[string]string{card("0000:05:00.1", "", management), {"sys/bus/pci/devices/0000:05:00.1/physfn": "-> ../0000:05:00.0"}},
			want: "no NVLink switches"},
		"a rack": {files: []map[string]string{card("0000:05:00.0", "mlx5_0", management, usable)}, gpus: []devices.GPU{gpu(0x2941)},
			want: "the NVLink switches of this GPU's rack manage themselves"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := machine(t, c.files...)
			m := require.Value(Detect(f.Sys, c.gpus))(t)
			assert.Equal(t, c.want, m.String())
			assert.Equal(t, c.runs, m.Managed())
		})
	}
}

// Vital product data that cannot be read are told, and do not hide another card.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	f := machine(t, card("0000:05:00.0", "", strings.Repeat("x", 40000)), card("0000:06:00.0", "", management), map[string]string{
		"sys/bus/pci/devices/0000:07:00.0/vpd/": "", "sys/bus/pci/devices/0000:07:00.0/vendor": "0x15b3", "sys/bus/pci/devices/0000:07:00.0/device": "0x1021",
		"sys/bus/pci/devices/0000:07:00.0/class": "0x020700",
	})
	m := require.Value(Detect(f.Sys, []devices.GPU{gpu(0x2901)}))(t)
	if len(m.Bridges) != 1 || len(m.Unreadable) != 2 || len(m.Baseboard) != 1 {
		t.Fatalf("%+v", m)
	}
	assert.Contains(t, m.Unreadable[0], "read the vital product data of 0000:05:00.0: ")
	assert.Contains(t, m.Unreadable[1], "not a regular file")
}

func TestPorts(t *testing.T) {
	t.Parallel()
	other := card("0000:09:00.0", "mlx5_a", vpd("MN=MLNX"), usable)
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the ports, or the error
	}{
		"one": {join(other, card("0000:05:00.0", "mlx5_0", management, usable)), "[mlx5_0 port 1]"},
		"several, sorted as a shell does": {join(card("0000:05:00.0", "mlx5_2", management, usable), card("0000:06:00.0", "mlx5_10", management, disabled, usable)),
			"[mlx5_10 port 2 mlx5_2 port 1]"},
		"no driver":    {join(other, card("0000:05:00.0", "", management)), "0000:05:00.0 has no InfiniBand device; load mlx5_core and mlx5_ib"},
		"not a bridge": {join(card("0000:05:00.0", "", management), other), "has no InfiniBand device"},
		"disabled":     {card("0000:05:00.0", "mlx5_0", management, disabled), "mlx5_0 port 1: it does not allow a subnet manager (IsSMDisabled)"},
		"no GUID":      {card("0000:05:00.0", "mlx5_0", management, "0x0 fe80::"), "mlx5_0 port 1: it has no GUID yet"},
		"a wrong GID":  {card("0000:05:00.0", "mlx5_0", management, "0x0 10.0.0.1"), `its GID "10.0.0.1" is not one`},
		"a wrong mask": {card("0000:05:00.0", "mlx5_0", management, "many fe80::1"), "its capability mask is not a number"},
		"Ethernet": {join(card("0000:05:00.0", "mlx5_0", management, usable), map[string]string{"sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n"}),
			`its link layer is "Ethernet", not InfiniBand`},
		"no ports": {card("0000:05:00.0", "mlx5_0", management), "ports: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := machine(t, c.files)
			ports, err := f.Machine.Ports(f.Sys)
			if err != nil {
				assert.Contains(t, err.Error(), c.want)
				return
			}
			texts := []string{}
			for _, p := range ports {
				texts = append(texts, p.String())
			}
			assert.Equal(t, c.want, "["+strings.Join(texts, " ")+"]")
			assert.Equal(t, guid, ports[0].guid())
		})
	}
}

func FuzzGUID(f *testing.F) {
	f.Add("fe80:0000:0000:0000:e09d:7303:00e4:00e8\n")
	f.Fuzz(func(t *testing.T, gid string) {
		n, err := parseGUID(gid)
		assert.Equalf(t, err == nil, n != 0, "%q: %d, %v", gid, n, err)
	})
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver  string
		device  uint16
		channel bool
		want    []string
	}{
		{"580.178.04", 0x2342, false, []string{coherentMode}},
		{"595.91.07", 0x31c2, true, []string{coherentMode, imexChannel}},
		{"570.211.01", 0x2342, false, nil}, // its module does not have the parameter
		{"580.178.04", 0x2330, false, nil}, // H100 in an ordinary machine
		{"570.211.01", 0x2330, true, []string{imexChannel}},
		{"odd", 0x2941, false, nil},
	} {
		assert.Same(t, c.want, Parameters(c.driver, []devices.GPU{gpu(0x1eb8), gpu(c.device)}, c.channel))
	}
}

// Device files of ib_umad are made where the container's /dev is older than the module.
func TestMakeNodes(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("device files need root")
	}
	f := machine(t, map[string]string{"sys/class/infiniband_mad/umad0/dev": "231:0\n", "sys/class/infiniband_mad/issm0/dev": "231:64\n", "sys/class/infiniband_mad/abi_version": "5\n",
		"dev/infiniband/issm0": "a file"})
	for range 2 {
		require.NoError(t, f.makeNodes())
		for _, name := range []string{"umad0", "issm0"} {
			st := require.Value(os.Stat(filepath.Join(f.Dev, "infiniband", name)))(t)
			assert.Equalf(t, os.ModeCharDevice, st.Mode()&os.ModeCharDevice, "%s", name)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(f.Sys, "class/infiniband_mad/umad0/dev"), []byte("x"), 0o644))
	assert.ErrorContains(t, f.makeNodes(), "make the device file of umad0")
}

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
	return devices.GPU{Function: devices.Function{Address: "0000:17:00.0", Vendor: devices.NVIDIA, Device: device}}
}
