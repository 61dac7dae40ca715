package metrics

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/reference"
)

// described takes a description apart; package prometheus has no other way to read it.
var described = regexp.MustCompile(`^Desc\{fqName: "nvidia_driver_(.*)", help: "(.*)", unit: "", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

// TestReference: the page has all metrics with their descriptions.
func TestReference(t *testing.T) {
	t.Parallel()
	parts := map[string]string{}
	for part, all := range map[string][]metric{
		"the driver":        {info, wantedInfo, state, waitsFor, ready, warnings, updated, started, lastFailed, buildInfo},
		"starts":            {phaseSeconds, startSeconds, compiles, lookups},
		"who is in the way": {holders, holderProcesses, blockedUnloads},
		"GPUs":              {gpusExpected, gpusWorking, gpusLent, gpusLost, gpuState, gpuUp, gpuRegistered, gpuMemoryUsed, gpuMemoryTotal, gpuUtilization, gpuQueryOK, gpuQuerySeconds, gpusAnswering},
		"daemons":           {daemonUp, daemonRestarts},
	} {
		var table strings.Builder
		table.WriteString("| metric | says | labels |\n|---|---|---|\n")
		for _, m := range all {
			found := described.FindStringSubmatch(m.desc.String())
			if found == nil {
				t.Fatalf("a description of another form: %s", m.desc)
			}
			labels := ""
			if found[3] != "" {
				labels = "`" + strings.ReplaceAll(found[3], ",", "`, `") + "`"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", found[1], strings.TrimSuffix(found[2], "."), labels)
		}
		parts[part] = table.String()
	}
	reference.Page(t, "../../docs/metrics.md", "node/metrics", parts)
}
