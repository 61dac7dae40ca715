package evict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

const (
	// Annotation is the annotation of a node that records what was changed for an upgrade and the
	// state before. It exists until the changes are undone.
	Annotation = "driver-container/evict"

	deployPrefix = "nvidia.com/gpu.deploy."
	pausedSuffix = "paused-for-driver-upgrade"
)

// operands are the daemons that the GPU Operator's driver manager pauses around an upgrade, by the
// suffix of their deploy labels. The driver is not among them. Neither is the plugin, which is
// paused after them.
var operands = []string{
	"operator-validator", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "mig-manager", "nvsm",
	"sandbox-validator", "sandbox-device-plugin", "vgpu-device-manager", "client", "dra-validator", "dcgm-exporter-dra", "dcgm-dra",
}

// pluginLabel is the deploy label of the kubelet plugin of NVIDIA's DRA driver.
const pluginLabel = deployPrefix + "dra-driver"

// record is the value of the annotation.
type record struct {
	// NAMESPACE/NAME of the pod for which the changes were made
	Pod      string    `json:"pod"`
	UID      string    `json:"uid"` // of that pod
	Since    time.Time `json:"since"`
	Cordoned bool      `json:"cordoned"` // the node was schedulable before
	// labels of the node before they were paused
	Labels map[string]string `json:"labels,omitempty"`
}

// maxLabel is the maximum length of a label's value, labelValue its form.
const maxLabel = 63

var labelValue = lazyregexp.New(`^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$`)

// maxRecord is many times the size of a record with all operands.
const maxRecord = 16 << 10

// parseRecord reads what an earlier instance wrote. A person may have edited it, so it accepts only
// labels that this program pauses.
func parseRecord(text string) (record, error) {
	var r record
	if len(text) > maxRecord {
		return r, fmt.Errorf("it has %d bytes", len(text))
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return record{}, err
	}
	for key, value := range r.Labels {
		if key != pluginLabel &&
			(!slices.Contains(operands, strings.TrimPrefix(key, deployPrefix)) || !strings.HasPrefix(key, deployPrefix)) {
			return record{}, fmt.Errorf(
				"it names the label %q, which is not one that is paused",
				key,
			)
		}
		if len(value) > maxLabel || !labelValue().MatchString(value) ||
			pausedValue(value) == value {
			return record{}, fmt.Errorf(
				"it gives the label %s the value %q, which was never paused",
				key,
				value,
			)
		}
	}
	return r, nil
}

// hasOperands says that the operands were paused.
func (r record) hasOperands() bool {
	for key := range r.Labels {
		if key != pluginLabel {
			return true
		}
	}
	return false
}

func (r record) String() string {
	data, _ := json.Marshal(r) // strings, a time and a bool: this cannot fail
	return string(data)
}

// changes describes the recorded changes for people.
func (r record) changes() string {
	var parts []string
	if r.Cordoned {
		parts = append(parts, "cordoned")
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "paused "+strings.TrimPrefix(key, deployPrefix))
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}

// operandsToPause returns those of the node's labels that have to be paused, with their present
// values.
func operandsToPause(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range operands {
		if value := labels[deployPrefix+name]; pausedValue(value) != value {
			out[deployPrefix+name] = value
		}
	}
	return out
}

// toPause is operandsToPause with the label of the kubelet plugin, if claims are looked at.
func (a *Agent) toPause(labels map[string]string) map[string]string {
	out := operandsToPause(labels)
	if value := labels[pluginLabel]; a.cfg.ResourceClaims && !a.claims.unserved &&
		pausedValue(value) != value {
		out[pluginLabel] = value
	}
	return out
}

// pausedValue returns the paused form of a deploy label's value, by the rules of the GPU Operator's
// driver manager: a value that means "not deployed" or "paused" stays, a custom value gets a
// suffix.
func pausedValue(value string) string {
	switch {
	case value == "" || value == "false" || strings.Contains(value, pausedSuffix):
		return value
	case value == "true" || len(value)+len("_"+pausedSuffix) > maxLabel:
		return pausedSuffix
	}
	return value + "_" + pausedSuffix
}
