package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lint/reference"
)

// TestReference: the page has all metrics with their descriptions.
func TestReference(t *testing.T) {
	t.Parallel()
	parts := map[string]string{}
	for part, all := range map[string][]metric{
		"the driver":        {info, wantedInfo, state, waitsFor, ready, warnings, updated, started, lastFailed, buildInfo},
		"starts":            {phaseSeconds, startSeconds, compiles, lookups},
		"who is in the way": {holders, holderProcesses, blockedUnloads},
		"GPUs":              {gpusExpected, gpusWorking, gpusLent, gpusLost, gpuState, gpuUp, gpuRegistered, gpuMemoryUsed, gpuMemoryTotal, gpuUtilization, gpuLicensed, gpuQueryOK, gpuQuerySeconds, gpusAnswering},
		"daemons":           {daemonUp, daemonRestarts},
		"companions":        {companionUp},
	} {
		var table strings.Builder
		table.WriteString("| metric | says | labels |\n|---|---|---|\n")
		for _, m := range all {
			labels := ""
			if len(m.labels) > 0 {
				labels = "`" + strings.Join(m.labels, "`, `") + "`"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.TrimPrefix(m.name, namespace), strings.TrimSuffix(m.help, "."), labels)
		}
		parts[part] = table.String()
	}
	reference.Page(t, "../../docs/metrics.md", "node/metrics", parts)
}
