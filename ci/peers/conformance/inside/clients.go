package inside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// specDir is the folder of a run's specifications; the runtime's configuration names it too.
const specDir = "/run/cdi"

// hookPath is the path of nvidia-cdi-hook in the world.
const hookPath = "/usr/bin/nvidia-cdi-hook"

// charDir is the folder for the validator's links; on a node it is /dev/char.
const charDir = "/tmp/char"

// validator does what the validator of the GPU Operator 26.7 does for a driver container: find libnvidia-ml
// and nvidia-smi with links resolved in its own root (so that an absolute link leads nowhere), run that
// nvidia-smi in its own container with that library, change into the driver root to run modprobe, and link
// the device nodes by their numbers.
func (s session) validator(ctx context.Context) {
	lib, c := resolve("libnvidia-ml.so.1", libraryDirs)
	smi, bin := resolve("nvidia-smi", []string{"usr/bin", "usr/sbin", "bin", "sbin"})
	c.Problems = append(c.Problems, bin.Problems...)
	if len(c.Problems) > 0 {
		c.Name, c.Code = "validator's nvidia-smi", 1
		s.end(c)
	} else {
		c, stdout, stderr := s.start(ctx, "validator's nvidia-smi", []string{"LD_PRELOAD=" + lib}, smi)
		s.smi(&c, c.Code)
		s.end(c, stdout, stderr)
	}
	if s.DevRoot == driverRoot {
		c := Client{Name: "validator's device list", Command: []string{"read", driverRoot + "/sys/bus/pci/devices"}}
		if _, err := os.ReadDir(c.Command[1]); err != nil {
			c.Code = 1
			c.problem("the root has dev, so its sys is read for PCI devices: %v", err)
		}
		s.end(c)
	}
	// The validator got exit code 127 from a root without modprobe. Whether the module loads is not tested here.
	c, stdout, stderr := s.start(ctx, "validator's modprobe", nil, "/usr/sbin/chroot", driverRoot, "/sbin/modprobe", "--version")
	if c.Code != 0 {
		c.problem("chroot %s /sbin/modprobe: exit code %d", driverRoot, c.Code)
	}
	s.end(c, stdout, stderr)
	if s.Loaded != "" { // the numbers come from the loaded module
		s.links(ctx)
	}
}

// links runs the toolkit's code for /dev/char, and requires links to the device nodes of the GPUs and the
// driver. The toolkit also links nodes of MIG instances that may exist later.
func (s session) links(ctx context.Context) {
	c, stdout, stderr := s.start(ctx, "validator's links", nil, "/usr/bin/devchar", "--driver-root="+driverRoot, "--dev-root="+s.DevRoot, "--dev-char-path="+charDir)
	if c.Code != 0 {
		c.problem("exit code %d", c.Code)
	}
	links, err := filepath.Glob(charDir + "/*")
	if err != nil {
		c.problem("%v", err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || strings.Contains(target, "/nvidia-caps/") {
			continue
		}
		c.Found.Devices = append(c.Found.Devices, filepath.Base(target))
		var st unix.Stat_t
		if err := unix.Stat(target, &st); err != nil {
			c.problem("%s leads to %s: %v", link, target, err)
		} else if number := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)); number != filepath.Base(link) {
			c.problem("%s leads to %s, which has number %s", link, target, number)
		}
	}
	slices.Sort(c.Found.Devices)
	for _, name := range []string{"nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		if !slices.Contains(c.Found.Devices, name) {
			c.problem("no link leads to %s", name)
		}
	}
	s.end(c, stdout, stderr)
}

// administrator does what people do on a node to look at a GPU: they change into the driver root and run
// nvidia-smi there. It needs device files in that root; without them it answers 9, loaded driver or not.
func (s session) administrator(ctx context.Context) {
	c, stdout, stderr := s.start(ctx, "administrator's nvidia-smi", nil, "/usr/sbin/chroot", driverRoot, "/usr/bin/nvidia-smi")
	s.smi(&c, c.Code)
	s.end(c, stdout, stderr)
}

// resolve finds a file in folders of the driver root as filepath.EvalSymlinks does: absolute links are not
// taken as relative to the driver root.
func resolve(name string, dirs []string) (string, Client) {
	var reason error
	for _, dir := range dirs {
		path, err := filepath.EvalSymlinks(filepath.Join(driverRoot, dir, name))
		if err == nil && strings.HasPrefix(path, driverRoot+"/") {
			return path, Client{}
		}
		if err == nil {
			err = fmt.Errorf("%s leads out of the driver root, to %s", filepath.Join(driverRoot, dir, name), path)
		}
		if _, there := os.Lstat(filepath.Join(driverRoot, dir, name)); there == nil || reason == nil {
			reason = err
		}
	}
	c := Client{}
	c.problem("%s is in none of %s: %v", name, strings.Join(dirs, ", "), reason)
	return "", c
}

// smi judges nvidia-smi's exit code: 9 means that the library was found and the driver is not loaded, 6 that
// the driver is loaded and no device starts, 12 that the library is not found, 18 that it has another
// version.
func (s session) smi(c *Client, code int) {
	allowed := []int{9}
	if s.Loaded != "" {
		allowed = []int{0, 6}
	}
	if !slices.Contains(allowed, code) {
		c.problem("nvidia-smi: exit code %d, want one of %v with module version %q", code, allowed, s.Loaded)
	}
}

// specifications makes CDI specifications in both ways and starts a container with each of them.
func (s session) specifications(ctx context.Context) {
	if err := os.MkdirAll(specDir, 0o755); err != nil {
		s.end(Client{Name: "nvidia-ctk", Code: -1, Problems: []string{err.Error()}})
		return
	}
	// The vendor is given, because the command's default is the vendor of ordinary devices.
	c, out, log := s.start(ctx, "nvidia-ctk", nil, "/usr/bin/nvidia-ctk", "cdi", "generate", "--mode=management",
		"--vendor=management.nvidia.com", "--driver-root="+driverRoot, "--dev-root="+s.DevRoot, "--nvidia-cdi-hook-path="+hookPath, "--format=json")
	s.specification(ctx, c, "management.nvidia.com", "all", out, log)
	gpus, err := filepath.Glob(filepath.Join(s.DevRoot, "dev/nvidia[0-9]*"))
	if err != nil || len(gpus) == 0 {
		return // no device that a mock could stand for
	}
	c, out, log = s.start(ctx, "nvcdi", nil, "/usr/bin/nvcdi-mock", "--gpus="+fmt.Sprint(len(gpus)), "--driver-version="+s.Version,
		"--driver-root="+driverRoot, "--dev-root="+s.DevRoot, "--nvidia-cdi-hook-path="+hookPath)
	s.specification(ctx, c, "nvidia.com", "0", out, log)
}

// specification judges one specification and then starts the container.
func (s session) specification(ctx context.Context, c Client, vendor, device string, out, log []byte) {
	made := false
	if c.Code != 0 {
		c.problem("exit code %d", c.Code)
	} else if spec, err := ParseSpec(out); err != nil {
		c.problem("%v", err)
	} else {
		made = true
		c.Found = spec.Inventory(s.Version)
		c.compare(s.want, s.Version)
		if len(c.Found.Devices) == 0 {
			c.problem("no device node below %s", s.DevRoot)
		}
		if err := os.WriteFile(filepath.Join(specDir, vendor+".json"), out, 0o644); err != nil {
			made = false
			c.problem("%v", err)
		}
	}
	c.judge()
	name := "container of " + c.Name
	s.end(c, log)
	if made {
		s.container(ctx, name, vendor+"/gpu="+device)
	}
}
