package cluster

import (
	"fmt"
	"strings"
	"time"
)

// reportFailure prints what happened in the cluster, if the test failed. The lab prints the
// console.
func (c *Cluster) reportFailure() {
	if !c.T.Failed() || c.core == nil {
		return
	}
	kubectl := func(args ...string) {
		out, err := c.TryKubectl(append(args, "--request-timeout=20s")...)
		c.T.Logf("--- kubectl %s (%v)\n%s", strings.Join(args, " "), err, tail(out))
	}
	kubectl("get", "pods", "-A", "-o", "wide")
	kubectl("describe", "pods", "-A", "-l", DriverSelector)
	kubectl("get", "events", "-A", "--sort-by=.metadata.creationTimestamp")
	list, _ := c.Pods(DriverSelector) //nolint:errcheck // kubectl says above what is wrong
	for _, p := range list {
		kubectl("logs", "-n", p.Namespace, p.Name, "--all-containers", "--prefix", "--tail=150")
	}
	c.T.Log(
		tail(
			fmt.Sprint(
				"--- the node: ",
				c.guest.RunFor(20*time.Second, "sh", "-c", "cat /run/nvidia/driver-status.json; "+
					"grep -E '^(nvidia|drm)' /proc/modules; grep ' /run/nvidia' /proc/mounts; "+
					"journalctl -n 60 --no-pager -u kubelet -u containerd | cut -c1-300; free -m; df -h /; dmesg | tail -n 40"),
			),
		),
	)
}

// tail keeps messages readable: errors are at the end.
func tail(s string) string { return s[max(0, len(s)-12000):] }
