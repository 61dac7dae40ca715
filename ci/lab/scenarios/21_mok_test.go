package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// Firmware with Microsoft's keys, and Debian's own shim, GRUB and kernel: the site has signed nothing on the
// machine. A start is refused, names the command that enrols the key, and leaves the certificate for it. A
// person runs that command, restarts, confirms in MokManager, and the same start loads the driver.
func Test21MOK(t *testing.T) {
	var owner *testcert.Pair
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		owner = newKey("The owner's modules")
		c.Firmware = &lab.Firmware{Debian: true}
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, forged{name: "signed", key: owner})
		c.Programs = []string{"mokutil"}
	}}.start(t)
	const certificate = "/var/lib/nvidia-driver/module-signing.der"
	g.Sh("mkdir -p " + modulesDir + " && cp -a " + forgedDir + "/signed/. " + modulesDir)
	fails(t, g, driver("535"), 13, time.Minute,
		demanded+`the modules are signed by "The owner's modules" .* a key that the kernel does not know`,
		"`mokutil --import "+certificate+"`", `MokManager`)
	assert.Equalf(t, true, g.Read(certificate) == string(owner.Certificate.Raw), "%s is the certificate of the key that signed the modules", certificate)
	enrol(t, g, certificate)
	contains(t, g.Read("/proc/keys"), `\.machine: [1-9]`, `The owner's modules`)
	predicts(t, g, light("535"), 0, `module-signing +ok +.*"The owner's modules" .* which the kernel knows`)
	loadsSigned(t, g, light("535"))
}

// enrol does the steps of a person at the machine.
func enrol(t *testing.T, g *lab.Guest, certificate string) {
	t.Helper()
	const password = "enrolment"
	// At a terminal mokutil asks for the password instead.
	g.Write("/run/hash", g.Sh("mokutil --generate-hash="+password), 0o600)
	g.Sh("mokutil --import " + certificate + " --hash-file /run/hash")
	g.Reboot(func(c *lab.Console) {
		c.Wait(`Press any key to perform MOK management`, 2*time.Minute)
		c.Type(lab.KeyEnter)
		menu := func(title string, keys ...string) {
			c.Wait(title, 2*time.Minute) // it hashes the password thousands of times
			c.Type(keys...)
		}
		menu(`Enroll MOK`, lab.KeyDown, lab.KeyEnter)
		menu(`Continue`, lab.KeyDown, lab.KeyEnter)
		menu(`Yes`, lab.KeyDown, lab.KeyEnter)
		menu(`Password`, append(strings.Split(password, ""), lab.KeyEnter)...)
		menu(`Reboot`, lab.KeyEnter)
	})
}
