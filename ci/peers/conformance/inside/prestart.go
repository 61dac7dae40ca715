package inside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// prestartRoot is the link to the driver root that the container makes at its start.
const prestartRoot = "/tmp/driver-root"

// The folders that the prestart script of NVIDIA's DRA driver searches, in its order.
var (
	prestartPrograms  = []string{"opt/bin", "usr/bin", "usr/sbin", "bin", "sbin"}
	prestartLibraries = []string{
		"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
	}
)

// prestart does what the init container of the DRA driver's kubelet plugin does until it succeeds
// (hack/kubelet-plugin-prestart.sh, release 0.5.0). It makes a link to the driver root, because the root
// may appear later. nvidia-smi must be a regular file in a folder that is no link; libnvidia-ml.so.1 may
// be a link that leads to a file in the container. Then it runs that nvidia-smi with an empty
// environment, except LD_PRELOAD. If no GPU is left to containers, it asks for the version only.
//
// The script leaves at exit code 0. Fake GPUs do not initialise, and nvidia-smi of R535 needs the module and
// a GPU also for its version, so the code is judged as that of the validator's nvidia-smi.
func (s session) prestart(ctx context.Context) {
	c := Client{Name: "DRA driver's prestart"}
	if err := os.Symlink(driverRoot, prestartRoot); err != nil {
		c.problem("%v", err)
	}
	smi := findFile("nvidia-smi", prestartPrograms, os.Lstat)
	lib := findFile("libnvidia-ml.so.1", prestartLibraries, os.Stat)
	if smi == "" {
		c.problem("no regular file nvidia-smi in %s", strings.Join(prestartPrograms, ", "))
	}
	if lib == "" {
		c.problem("libnvidia-ml.so.1 leads to no file in %s", strings.Join(prestartLibraries, ", "))
	}
	if len(c.Problems) > 0 {
		c.Code = 1
		s.end(c)
		return
	}
	command := []string{smi}
	if gpusLent() {
		command = append(command, "--version")
	}
	c, stdout, stderr := s.execute(ctx, c.Name, []string{"LD_PRELOAD=" + lib}, command...)
	s.smi(&c, c.Code)
	s.end(c, stdout, stderr)
}

// findFile is `find -maxdepth 1 -type f -name NAME FOLDER... | head -n1` with os.Lstat, and with os.Stat
// `find -L`. Without -L find does not look into a folder that is a link.
func findFile(name string, dirs []string, stat func(string) (os.FileInfo, error)) string {
	for _, dir := range dirs {
		dir = filepath.Join(prestartRoot, dir)
		if info, err := stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if info, err := stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// gpusLent says whether every GPU of the machine is bound to vfio-pci, as the script does: also if there is
// none, or no PCI bus.
func gpusLent() bool {
	devices, err := filepath.Glob("/sys/bus/pci/devices/*")
	if err != nil {
		return true
	}
	for _, dev := range devices {
		if attribute(dev, "vendor") != "0x10de" || !strings.HasPrefix(attribute(dev, "class"), "0x03") {
			continue
		}
		if driver, err := os.Readlink(filepath.Join(dev, "driver")); err != nil || filepath.Base(driver) != "vfio-pci" {
			return false
		}
	}
	return true
}

func attribute(dev, name string) string {
	text, err := os.ReadFile(filepath.Join(dev, name))
	if err != nil {
		return fmt.Sprint(err)
	}
	return strings.TrimSpace(string(text))
}
