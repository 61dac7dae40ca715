package nfd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// TestPagesAgree: the pages have one configuration of NFD's source of PCI devices, and its label is one by
// which the chart chooses.
func TestPagesAgree(t *testing.T) {
	t.Parallel()
	var found []string
	for _, page := range require.Value(filepath.Glob("../../../docs/*.md"))(t) {
		for _, m := range regexp.MustCompile(`sources: \{pci: (.*)\}`).FindAllSubmatch(require.Value(os.ReadFile(page))(t), -1) {
			found = append(found, string(m[1]))
		}
	}
	assert.Samef(t, []string{paged}, slices.Compact(found), "configurations in the pages (-want +got)")
}

// Configurations: that of the pages, NFD's default, and one that puts the device into the only label.
const (
	paged    = `{deviceClassWhitelist: ["02", "03"], deviceLabelFields: [vendor]}`
	byClass  = `{deviceClassWhitelist: ["03", "0b40", "12"], deviceLabelFields: [class, vendor]}`
	byDevice = `{deviceClassWhitelist: ["0300", "0302"], deviceLabelFields: [class, vendor, device]}`
)

// TestConfigurations: whatever the configuration is, with the rules and without them, a node has a pool if
// and only if it has a GPU, and that pool alone chooses it, with the chart's affinity. Rules and devices tell
// Volta from Turing.
func TestConfigurations(t *testing.T) {
	tool.Real(t, "Node Feature Discovery is built from source")
	binary, m := program(t), require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
	machines := map[string]labelled{
		"t4": known["turing"], "v100": known["volta"], "display": known["vga"], "none": known["no-gpu"], "amd": known["other-vendor"], "sound": known["audio"],
		"nic": {devices: []device{{"0x15b3", "0x1017", "0x020000"}}}, "switch": {devices: []device{{"0x10de", "0x22a3", "0x068000"}}},
	}
	withGPU := []string{"display", "t4", "v100"}
	for _, pci := range []string{paged, byClass, byDevice} {
		for rules, with := range map[string]bool{"rules": true, "": false} {
			t.Run(pci+rules, func(t *testing.T) {
				labels := label(t, binary, with, pci, machines)
				p := require.Value(fleet.Recommend(m, list(t, labels), fleet.Options{Advisor: releases.Advisor{Day: time.Now()}}))(t)
				drivers := map[string]string{}
				for _, pool := range p.Pools {
					for name, of := range labels {
						has := func(labels map[string]string) bool {
							for key, value := range labels {
								if of[key] != value {
									return false
								}
							}
							return true
						}
						selected := p.ByChart(of) && has(pool.NodeSelector) && (len(pool.AnyOf) == 0 || slices.ContainsFunc(pool.AnyOf, has))
						assert.Equalf(t, slices.Contains(pool.Nodes, name), selected, "the pool %s chooses %s", pool.Name, name)
						if selected {
							drivers[name] += pool.Driver
						}
					}
				}
				for name := range machines {
					assert.Equalf(t, slices.Contains(withGPU, name), drivers[name] != "", "%s has a driver: %v", name, p.Without)
				}
				assert.Equalf(t, !with && pci != byDevice, drivers["t4"] == drivers["v100"], "Turing and Volta have one driver")
			})
		}
	}
}

// list returns the nodes of a cluster with these labels. The maps get the labels that every node has.
func list(t *testing.T, all map[string]map[string]string) []fleet.Node {
	t.Helper()
	var items []string
	for name, labels := range all {
		labels[fleet.LabelArch], labels[fleet.LabelOSID], labels[fleet.LabelOSVersion] = "amd64", "ubuntu", "24.04"
		items = append(items, fmt.Sprintf(`{"metadata": {"name": %q, "labels": %s},
			"status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "6.8.0-60-generic", "osImage": "Ubuntu 24.04.2 LTS"}}}`,
			name, require.Value(json.Marshal(labels))(t)))
	}
	return require.Value(fleet.ReadNodes(strings.NewReader(`{"kind": "NodeList", "items": [` + strings.Join(items, ", ") + `]}`)))(t)
}
