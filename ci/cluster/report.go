package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// reportFailure prints what happened in the cluster, if the test failed.
func (c *Cluster) reportFailure() {
	if !c.t.Failed() || c.machine == nil {
		return
	}
	var b strings.Builder
	section := func(title, text string, err error) {
		fmt.Fprintf(&b, "--- %s\n%s\n", title, strings.TrimSpace(tail(text)))
		if err != nil {
			fmt.Fprintf(&b, "(%v)\n", err)
		}
	}
	kubectl := func(args ...string) {
		out, err := c.TryKubectl(append(args, "--request-timeout=20s")...)
		section("kubectl "+strings.Join(args, " "), out, err)
	}
	onNode := func(command string) {
		out, err := c.TryNode(20*time.Second, command)
		section(command, out, err)
	}
	select {
	case <-c.machine.Done:
		section("QEMU ended", c.machine.Said.String(), c.machine.Err)
	default:
		kubectl("get", "pods", "-A", "-o", "wide")
		kubectl("describe", "pods", "-A", "-l", driverSelector)
		kubectl("get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
		for _, previous := range []string{"--previous=true", "--previous=false"} {
			list, _ := c.pods("-A", "-l", driverSelector)
			for _, p := range list {
				if previous == "--previous=true" && Restarts(list) == 0 {
					continue
				}
				kubectl("logs", "-n", p.Namespace, p.Name, "--all-containers", "--prefix", "--tail=150", previous)
			}
		}
		onNode("cat /run/nvidia/driver-status.json; grep -E '^(nvidia|drm)' /proc/modules; grep ' /run/nvidia' /proc/mounts; ls -la /run/nvidia /dev/nvidia*; true")
		onNode("dmesg | tail -n 40")
		onNode("journalctl -n 60 --no-pager -u kubelet -u containerd | cut -c1-300")
		onNode("free -m; df -h /; uptime; systemctl --failed --no-legend")
	}
	section("the console's end", c.machine.consoleText(), nil)
	path := filepath.Join(cacheDir(c.t), "failed", strings.ReplaceAll(c.t.Name(), "/", "-"))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err == nil && os.WriteFile(path, []byte(b.String()), 0o644) == nil {
		fmt.Fprintf(&b, "--- this is in %s as well\n", path)
	}
	c.t.Log(b.String())
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string {
	const most = 12000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
