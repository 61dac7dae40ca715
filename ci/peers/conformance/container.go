package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// look is the script that runs in the container. It prints which of the driver's libraries the
// dynamic linker knows, which of them it cannot load, whether device nodes can be opened, and what
// nvidia-smi answers.
//
//go:embed look.sh
var look string

// lifecycle is a container's. The runtime changes a bundle on create only, so create and start are
// separate.
const lifecycle = `runtime="nvidia-container-runtime --log $bundle/runc.log"
$runtime create --bundle $bundle $id
$runtime start $id
while $runtime state $id | grep -q '"status": "running"'; do sleep 0.05; done
$runtime delete --force $id`

// container starts a container with a CDI device through nvidia-container-runtime and runc and
// reports what the script finds in it.
func (s session) container(ctx context.Context, name, device string) {
	id := fmt.Sprintf("conformance-%d", len(s.Clients))
	bundle := filepath.Join("/run", id)
	if err := writeBundle(bundle, id, device); err != nil {
		s.end(Client{Name: name, Code: -1, Problems: []string{"write a bundle: " + err.Error()}})
		return
	}
	c, stdout, stderr := s.start(ctx, name, []string{"bundle=" + bundle, "id=" + id}, "/bin/sh", "-e", "-c", lifecycle)
	if c.Code != 0 {
		log, _ := os.ReadFile(bundle + "/runc.log") //nolint:errcheck // missing when the runtime itself failed
		c.problem("nvidia-container-runtime: exit code %d: %s", c.Code, tail(append(stderr, log...)))
	} else {
		s.inspect(&c, string(stdout))
	}
	s.end(c, stdout, stderr)
}

// inspect reads the script's lines: "library NAME", "broken NAME: reason", "device NAME: reason or
// ok", "smi CODE".
func (s session) inspect(c *Client, output string) {
	c.Code = -1
	for line := range strings.Lines(output) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "library":
			c.Found.Libraries = append(c.Found.Libraries, rest)
		case "broken":
			c.problem("the dynamic linker cannot load %s", rest)
		case "device":
			node, reason, _ := strings.Cut(rest, ": ")
			c.Found.Devices = append(c.Found.Devices, node)
			// Any other error means that the device node can be opened: the driver answered, or no
			// driver is loaded.
			if strings.Contains(reason, "not permitted") || strings.Contains(reason, "Permission denied") {
				c.problem("%s cannot be opened: %s", node, reason)
			}
		case "smi":
			c.Code, _ = strconv.Atoi(rest) //nolint:errcheck // a line without a number is 0 or -1: it fails either way below
		}
	}
	c.smi()
	for _, lib := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		if !strings.Contains(output, "library "+lib+"\n") {
			c.problem("the dynamic linker does not know %s", lib)
		}
	}
	if len(c.Found.Devices) == 0 {
		c.problem("no device node of the driver inside")
	}
}

//go:embed bundle.json
var bundleDefaults []byte

// writeBundle makes an OCI bundle whose root is the world's system, with a folder in memory above
// it, because hooks write to it.
func writeBundle(dir, id, device string) error {
	for _, name := range []string{"rootfs", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	if err := mount("overlay", dir+"/rootfs", "overlay", 0, "lowerdir=/,upperdir="+dir+"/upper,workdir="+dir+"/work"); err != nil {
		return err
	}
	var s specs.Spec
	if err := json.Unmarshal(bundleDefaults, &s); err != nil {
		return err
	}
	s.Process.Env = append(s.Process.Env, "NVIDIA_VISIBLE_DEVICES="+device)
	s.Process.Args = append(s.Process.Args, look)
	s.Linux.CgroupsPath = "/" + id // one level, which runc removes itself
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s %s on %s: %w", kind, source, target, err)
	}
	return nil
}
