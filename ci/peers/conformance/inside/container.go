package inside

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "embed"
)

// look is the script that runs in the container. It prints which of the driver's libraries the dynamic linker
// knows, which of them it cannot load, whether device nodes can be opened, and what nvidia-smi answers.
//
//go:embed look.sh
var look string

// container starts a container with a CDI device through nvidia-container-runtime and runc and reports what
// the script finds in it.
func (s session) container(ctx context.Context, name, device string) {
	begin := time.Now()
	c := Client{Name: name, Command: []string{"/usr/bin/nvidia-container-runtime", "create", device}}
	output, err := s.inContainer(ctx, &c, device)
	c.Millis = time.Since(begin).Milliseconds()
	if err != nil {
		c.Code = 1
		c.problem("%v", err)
	} else {
		s.inspect(&c, output)
	}
	c.judge()
	s.end(c, []byte(output))
}

// inContainer runs the script in a new container and returns its output.
func (s session) inContainer(ctx context.Context, c *Client, device string) (string, error) {
	id := "driver-conformance-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(len(s.Clients))
	bundle := filepath.Join("/run", id)
	if err := writeBundle(bundle, id, device); err != nil {
		return "", fmt.Errorf("write a bundle: %w", err)
	}
	// The runtime changes a bundle on create only, so create and start are separate. The container writes to
	// files, because create returns while the container lives.
	program := "exec /usr/bin/nvidia-container-runtime --log " + bundle + "/runc.log "
	step := func(command string) error {
		r, _, stderr := s.start(ctx, command, nil, "/bin/sh", "-c", program+command)
		c.Warnings = append(c.Warnings, r.Warnings...)
		if r.Code != 0 {
			out, _ := os.ReadFile(bundle + "/output")   //nolint:errcheck // missing when create itself failed
			log, _ := os.ReadFile(bundle + "/runc.log") //nolint:errcheck // as above
			return fmt.Errorf("nvidia-container-runtime %s: exit code %d: %s", command, r.Code, tail(append(append(stderr, out...), log...)))
		}
		return nil
	}
	if err := step("create --bundle " + bundle + " " + id + " >" + bundle + "/output 2>&1"); err != nil {
		return "", err
	}
	defer func() {
		if err := step("delete --force " + id); err != nil {
			c.problem("%v", err)
		}
	}()
	if err := step("start " + id); err != nil {
		return "", err
	}
	return finished(ctx, bundle+"/output")
}

// finished waits for the last line of the script's output.
func finished(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(string(data), "\nend\n") {
			return string(data), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the container: %w; so far it printed: %s", ctx.Err(), tail(data))
		case <-tick.C:
		}
	}
}

// inspect reads the script's lines: "library NAME", "broken NAME: reason", "device NAME: reason or ok", "smi
// CODE".
func (s session) inspect(c *Client, output string) {
	code := -1
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
			// Any other error means that the device node can be opened: the driver answered, or no driver is loaded.
			if strings.Contains(reason, "not permitted") || strings.Contains(reason, "Permission denied") {
				c.problem("%s cannot be opened: %s", node, reason)
			}
		case "smi":
			code, _ = strconv.Atoi(rest) //nolint:errcheck // a line without a number is 0 or -1: it fails either way below
		}
	}
	c.Code = code
	s.smi(c, code)
	for _, lib := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		if !strings.Contains(output, "\nlibrary "+lib+"\n") {
			c.problem("the dynamic linker does not know %s", lib)
		}
	}
	if len(c.Found.Devices) == 0 {
		c.problem("no device node of the driver inside")
	}
}

// writeBundle makes an OCI bundle whose root is a copy of the minimal system in /bundle, because hooks write
// to it.
func writeBundle(dir, id, device string) error {
	if err := os.MkdirAll(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "rootfs"), os.DirFS("/bundle")); err != nil {
		return err
	}
	type m map[string]any
	config := m{
		"ociVersion": "1.0.2",
		"process": m{
			"terminal": false, "cwd": "/", "user": m{"uid": 0, "gid": 0},
			"env":  []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "NVIDIA_VISIBLE_DEVICES=" + device},
			"args": []string{"/bin/sh", "-c", look},
		},
		"root": m{"path": "rootfs", "readonly": false}, "hostname": "consumer",
		"mounts": []m{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=64k"}},
			{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		"linux": m{
			"cgroupsPath": "/" + id, // one level, which runc removes itself
			"namespaces":  []m{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}},
			"resources":   m{"devices": []m{{"allow": false, "access": "rwm"}}},
		},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644)
}
