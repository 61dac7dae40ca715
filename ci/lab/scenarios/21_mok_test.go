package scenarios

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/lab/uefi"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const toolsDir = "/mokutil" // in the guest

// Firmware with Microsoft's keys, and Debian's own shim, GRUB and kernel: the site has signed nothing on the
// machine. A start is refused, names the command that enrols the key, and leaves the certificate for it. A
// person runs that command, restarts, confirms in MokManager, and the same start loads the driver.
func Test21MOK(t *testing.T) {
	var owner *testcert.Pair
	g := stage{products: map[string]product{"535": d535}, edit: func(c *lab.Config) {
		owner = uefi.NewKey("The owner's modules")
		c.Firmware = &lab.Firmware{Debian: true}
		c.Disks[forgedDir] = forge(t, d535, c.Kernel, forged{name: "signed", key: owner})
		c.Disks[toolsDir] = lab.TreeDisk(t, program(t, "mokutil"))
	}}.start(t)
	const certificate = "/var/lib/nvidia-driver/module-signing.der"
	g.Sh("mkdir -p " + modulesDir + " && cp -a " + forgedDir + "/signed/. " + modulesDir)
	fails(t, g, driver("535"), 13, time.Minute,
		demanded+`the modules are signed by "The owner's modules" .* a key that the kernel does not know`,
		"`mokutil --import "+certificate+"`", `MokManager`)
	if g.Read(certificate) != string(owner.Certificate.Raw) {
		t.Errorf("%s is not the certificate of the key that signed the modules", certificate)
	}
	enrol(t, g, certificate)
	contains(t, g.Read("/proc/keys"), `\.machine: [1-9]`, `The owner's modules`)
	predicts(t, g, light("535"), 0, `module-signing +ok +.*"The owner's modules" .* which the kernel knows`)
	loadsSigned(t, g, light("535"))
}

// enrol does the steps of a person at the machine.
func enrol(t *testing.T, g *lab.Guest, certificate string) {
	t.Helper()
	const password = "enrolment"
	mokutil := func(args string) string {
		return g.Sh("LD_LIBRARY_PATH=" + toolsDir + "/lib " + toolsDir + "/lib/ld-linux-x86-64.so.2 " + toolsDir + "/bin/mokutil " + args)
	}
	// At a terminal mokutil asks for the password instead.
	g.Write("/run/hash", mokutil("--generate-hash="+password), 0o600)
	mokutil("--import " + certificate + " --hash-file /run/hash")
	g.Reboot(func(c *lab.Console) {
		c.Wait(`Press any key to perform MOK management`, time.Minute)
		c.Type(lab.KeyEnter)
		menu := func(title string, keys ...string) {
			c.Wait(title, 20*time.Second)
			c.Type(keys...)
		}
		menu(`Enroll MOK`, lab.KeyDown, lab.KeyEnter)
		menu(`Continue`, lab.KeyDown, lab.KeyEnter)
		menu(`Yes`, lab.KeyDown, lab.KeyEnter)
		menu(`Password`, append(strings.Split(password, ""), lab.KeyEnter)...)
		menu(`Reboot`, lab.KeyEnter)
	})
}

// program returns a folder with a program of this machine and the libraries that it needs.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v (ci/e2e/setup installs it)", err)
	}
	out, err := exec.CommandContext(t.Context(), "ldd", path).Output()
	require.NoErrorf(t, err, "ldd %s", path)
	dir := t.TempDir()
	files := map[string]string{path: "bin"}
	for _, library := range regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(out), -1) {
		files[library] = "lib"
	}
	for from, to := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, to), 0o755))
		tool.Must(t, "cp", "-L", from, filepath.Join(dir, to))
	}
	return dir
}
