package cluster

import (
	"fmt"
	"strings"
	"time"
)

// reportFailure prints what happened in the cluster, if the test failed.
func (c *Cluster) reportFailure() {
	if !c.T.Failed() || c.machine == nil {
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
	select {
	case <-c.machine.Done:
		section("QEMU ended", c.machine.Said.String(), c.machine.Err)
	default:
		kubectl("get", "pods", "-A", "-o", "wide")
		kubectl("describe", "pods", "-A", "-l", DriverSelector)
		kubectl("get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
		list, _ := c.Pods(DriverSelector) //nolint:errcheck // kubectl says above what is wrong
		for _, p := range list {
			kubectl("logs", "-n", p.Namespace, p.Name, "--all-containers", "--prefix", "--tail=150")
		}
		out, err := c.tryNode(20*time.Second, "cat /run/nvidia/driver-status.json; "+
			"grep -E '^(nvidia|drm)' /proc/modules; grep ' /run/nvidia' /proc/mounts; "+
			"dmesg | tail -n 40; journalctl -n 60 --no-pager -u kubelet -u containerd | cut -c1-300; free -m; df -h /; true")
		section("the node", out, err)
	}
	section("the console's end", c.machine.consoleText(), nil)
	c.T.Log(b.String())
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string {
	const most = 12000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}
