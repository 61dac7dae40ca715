package lab

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab/fakegpu"
	"github.com/driver-container/driver-container/ci/lab/uefi"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// secureBoot prints the state of Secure Boot: the firmware's variable, whose first 4 bytes are attributes,
// and the kernel's own state.
const secureBoot = `tail -c 1 /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c | od -An -tx1
cat /sys/kernel/security/lockdown /sys/module/module/parameters/sig_enforce`

// unsigned makes a copy of one of the kernel's own modules that counts as unsigned: it lacks the last 40
// bytes, which contain the signature's marker.
const unsigned = `f=/lib/modules/$(uname -r)/kernel/drivers/net/dummy.ko; head -c $(($(stat -c %s $f) - 40)) $f >/tmp/unsigned.ko; cp $f /tmp/signed.ko`

// TestFirmware: Secure Boot with a key of the test.
func TestFirmware(t *testing.T) {
	Gate(t)
	key := uefi.NewKey("lab's own key")
	g := Start(t, Config{
		Kernel: Kernel(t, "debian12"), GPUs: []fakegpu.Model{fakegpu.T4},
		Firmware: &Firmware{Variables: []uefi.Variable{uefi.PK(key.Certificate), uefi.KEK(key.Certificate), uefi.DB(key.Certificate)}},
	})
	assert.Equalf(t, " 01\nnone [integrity] confidentiality\nY", g.Sh(secureBoot), "Secure Boot")
	assert.Equalf(t, "0x1eb8", g.Sh("cat /sys/bus/pci/devices/0000:00:05.0/device"), "GPU")
	if keys := g.Read("/proc/keys"); !strings.Contains(keys, "lab's own key") || !strings.Contains(keys, ".platform: 1") {
		t.Errorf("keys:\n%s", keys)
	}
	g.Sh(unsigned)
	assert.Equalf(t, syscall.EKEYREJECTED, g.Insert("/tmp/unsigned.ko"), "unsigned")
	assert.Equalf(t, 0, g.Insert("/tmp/signed.ko"), "signed by Debian")
}

// TestRestart: an installed Debian that restarts and keeps its disk.
func TestRestart(t *testing.T) {
	Gate(t)
	g := Start(t, Config{Kernel: Kernel(t, "debian12"), GPUs: []fakegpu.Model{fakegpu.T4}, Firmware: &Firmware{Debian: true}})
	assert.Equalf(t, " 01\nnone [integrity] confidentiality\nY", g.Sh(secureBoot), "Secure Boot")
	g.Write("/var/lib/kept", "x", 0)
	left := g.Hold("/dev/null")
	g.Reboot(func(c *Console) { c.Wait("Loading Linux|Secure Boot is enabled", time.Minute) })
	if left.Running() {
		t.Error("a process is said to run on after a restart")
	}
	assert.Equalf(t, "x", g.Read("/var/lib/kept"), "file")
	assert.Equalf(t, "0x1eb8", g.Sh("cat /sys/bus/pci/devices/0000:00:05.0/device"), "GPU")
}
