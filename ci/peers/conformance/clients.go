package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// of a run's specifications; the runtime's configuration names it too
	specDir  = "/run/cdi"
	hookPath = "/usr/bin/nvidia-cdi-hook" // in the world
)

// validator does what the validator of the GPU Operator 26.7 does for a driver container: find
// libnvidia-ml and nvidia-smi with links resolved in its own root (so that an absolute link leads
// nowhere), run that nvidia-smi in its own container with that library, and change into the driver
// root to run modprobe.
func (s session) validator(ctx context.Context) {
	lib, noLib := resolve("libnvidia-ml.so.1", libraryDirs)
	smi, noSMI := resolve("nvidia-smi", []string{"usr/bin", "usr/sbin", "bin", "sbin"})
	c := Client{Name: "validator's nvidia-smi", Code: 1, Problems: append(noLib, noSMI...)}
	var stdout, stderr []byte
	if len(c.Problems) == 0 {
		c, stdout, stderr = s.start(ctx, c.Name, []string{"LD_PRELOAD=" + lib}, smi)
		c.smi()
	}
	s.end(c, stdout, stderr)
	if s.DevRoot == driverRoot {
		c := Client{Name: "validator's device list"}
		if _, err := os.ReadDir(driverRoot + "/sys/bus/pci/devices"); err != nil {
			c.problem("the root has dev, so its sys is read for PCI devices: %v", err)
		}
		s.end(c)
	}
	// The validator got exit code 127 from a root without modprobe. Whether the module loads is not
	// tested here.
	c, stdout, stderr = s.start(
		ctx,
		"validator's modprobe",
		nil,
		"/usr/sbin/chroot",
		driverRoot,
		"/sbin/modprobe",
		"--version",
	)
	if c.Code != 0 {
		c.problem("chroot %s /sbin/modprobe: exit code %d", driverRoot, c.Code)
	}
	s.end(c, stdout, stderr)
}

// resolve finds a file in folders of the driver root as filepath.EvalSymlinks does: absolute links
// are not taken as relative to the driver root.
func resolve(name string, dirs []string) (path string, problems []string) {
	for _, dir := range dirs {
		path, err := filepath.EvalSymlinks(filepath.Join(driverRoot, dir, name))
		if err == nil && strings.HasPrefix(path, driverRoot+"/") {
			return path, nil
		}
	}
	return "", []string{
		fmt.Sprintf(
			"%s is in none of %s, or its link leads out of the root",
			name,
			strings.Join(dirs, ", "),
		),
	}
}

// prestart is what the init container of the DRA driver's kubelet plugin does until it succeeds
// (hack/kubelet-plugin-prestart.sh, release 0.5.0), on a node that lends no GPU. It makes a link to
// the driver root, because the root may appear later. nvidia-smi must be a regular file in a folder
// that is no link; libnvidia-ml.so.1 may be a link that leads to a file in the container. Then it
// runs that nvidia-smi with an empty environment, except LD_PRELOAD.
const prestart = `root=/tmp/driver-root; ln -s ` + driverRoot + ` $root
find_in() { file=$1; shift; for dir in "$@"; do find $follow $root/$dir -maxdepth 1 -type f -name $file 2>/dev/null; done | head -n 1; }
follow=; smi=$(find_in nvidia-smi opt/bin usr/bin usr/sbin bin sbin)
follow=-L; lib=$(find_in libnvidia-ml.so.1 usr/lib64 usr/lib/x86_64-linux-gnu usr/lib/aarch64-linux-gnu \
	lib64 lib/x86_64-linux-gnu lib/aarch64-linux-gnu)
[ "$lib" ] || { echo "libnvidia-ml.so.1 leads to no file"; exit 1; }
[ "$smi" ] || { echo "there is no regular file nvidia-smi"; exit 1; }
exec env -i LD_PRELOAD=$lib $smi`

// prestart judges the exit code as that of the validator's nvidia-smi. (The script leaves at exit
// code 0. Fake GPUs do not initialise.)
func (s session) prestart(ctx context.Context) {
	c, stdout, stderr := s.start(ctx, "DRA driver's prestart", nil, "/bin/sh", "-c", prestart)
	if c.Code == 1 {
		c.problem("%s", bytes.TrimSpace(stdout))
	}
	c.smi()
	s.end(c, stdout, stderr)
}

// administrator does what people do on a node to look at a GPU: they change into the driver root
// and run nvidia-smi there. It needs device files in that root; without them it answers 9, loaded
// driver or not.
func (s session) administrator(ctx context.Context) {
	c, stdout, stderr := s.start(
		ctx,
		"administrator's nvidia-smi",
		nil,
		"/usr/sbin/chroot",
		driverRoot,
		"/usr/bin/nvidia-smi",
	)
	c.smi()
	s.end(c, stdout, stderr)
}

// smi judges nvidia-smi's exit code: 9 means that the library was found and the driver is not
// loaded, 12 that the library is not found, 18 that it has another version.
func (c *Client) smi() {
	if c.Code != 9 {
		c.problem("nvidia-smi: exit code %d, want 9", c.Code)
	}
}

// specifications makes CDI specifications in both ways and starts a container with each of them.
func (s session) specifications(ctx context.Context) {
	common := []string{
		"--driver-root=" + driverRoot,
		"--dev-root=" + s.DevRoot,
		"--nvidia-cdi-hook-path=" + hookPath,
	}
	// The vendor is given, because the command's default is the vendor of ordinary devices.
	s.specification(
		ctx,
		"nvidia-ctk",
		"management.nvidia.com",
		"all",
		append(
			[]string{
				"/usr/bin/nvidia-ctk",
				"cdi",
				"generate",
				"--mode=management",
				"--vendor=management.nvidia.com",
				"--format=json",
			},
			common...),
	)
	gpus, _ := filepath.Glob(filepath.Join(s.DevRoot, "dev/nvidia[0-9]*")) //nolint:errcheck // the pattern is valid
	if len(gpus) > 0 {                                                     // else there is no device that a mock could stand for
		s.specification(
			ctx,
			"nvcdi",
			"nvidia.com",
			"0",
			append(
				[]string{
					"/usr/bin/nvcdi-mock",
					fmt.Sprint("--gpus=", len(gpus)),
					"--driver-version=" + s.Version,
				},
				common...),
		)
	}
}

// specification judges the specification that a command prints, and then starts the container.
func (s session) specification(ctx context.Context, name, vendor, device string, command []string) {
	c, spec, log := s.start(ctx, name, nil, command...)
	err := c.accept(spec, s.Version, filepath.Join(specDir, vendor+".json"))
	if err != nil {
		c.problem("%v", err)
	}
	s.end(c, log)
	if err != nil {
		return
	}
	s.container(ctx, "container of "+name, vendor+"/gpu="+device)
}

// accept judges a specification and writes it where the runtime looks for it.
func (c *Client) accept(spec []byte, version, path string) (err error) {
	if c.Code != 0 {
		return fmt.Errorf("exit code %d", c.Code)
	}
	c.Found, err = inventory(spec)
	if err != nil {
		return err
	}
	c.compare(version)
	return errors.Join(os.MkdirAll(specDir, 0o755), os.WriteFile(path, spec, 0o644))
}
