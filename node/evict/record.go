package evict

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// Annotation holds, on a node, what was changed for an upgrade and what was there before. It stands as long as that is not put back.
	Annotation = "driver-container/evict"
	// SafeLoad is the annotation with which a driver's pod asks for a node without GPU users; its value is the pod's name. The
	// driver goes on when it is removed. The GPU Operator's upgrade controller knows it as well.
	SafeLoad = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"

	deploy = "nvidia.com/gpu.deploy."
	paused = "paused-for-driver-upgrade"
)

// operands are the daemons that the GPU Operator's driver manager pauses around an upgrade, by their deploy labels. The driver is
// not among them, nor is dra-driver: it may go only after the pods with its claims, which are not looked at here.
var operands = []string{
	"operator-validator", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "mig-manager", "nvsm",
	"sandbox-validator", "sandbox-device-plugin", "vgpu-device-manager", "client", "dra-validator", "dcgm-exporter-dra", "dcgm-dra",
}

// record is the annotation's value.
type record struct {
	Pod      string            `json:"pod"` // NAMESPACE/NAME of the pod for which it was done
	UID      string            `json:"uid"` // of that pod
	Since    time.Time         `json:"since"`
	Cordoned bool              `json:"cordoned"`         // the node was schedulable before
	Labels   map[string]string `json:"labels,omitempty"` // of the node, as they were before
}

// maxRecord is many times what a record with all operands has.
const maxRecord = 16 << 10

// parseRecord reads what an earlier instance wrote, or what somebody made of it: only labels that this program pauses are taken.
func parseRecord(text string) (record, error) {
	var r record
	if len(text) > maxRecord {
		return r, fmt.Errorf("it has %d bytes", len(text))
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return record{}, err
	}
	for key, value := range r.Labels {
		if !slices.Contains(operands, strings.TrimPrefix(key, deploy)) || !strings.HasPrefix(key, deploy) {
			return record{}, fmt.Errorf("it names the label %q, which is not one that is paused", key)
		}
		if len(validation.IsValidLabelValue(value)) > 0 || pausedValue(value) == value {
			return record{}, fmt.Errorf("it gives the label %s the value %q, which was never paused", key, value)
		}
	}
	return r, nil
}

func (r record) String() string {
	data, _ := json.Marshal(r) // strings, a time and a bool
	return string(data)
}

// changes says what the record puts back, for people.
func (r record) changes() string {
	var parts []string
	if r.Cordoned {
		parts = append(parts, "cordoned")
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "paused "+strings.TrimPrefix(key, deploy))
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}

// toPause are the labels to pause of those that the node has, with the values that they have now.
func toPause(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range operands {
		if value := labels[deploy+name]; pausedValue(value) != value {
			out[deploy+name] = value
		}
	}
	return out
}

// pausedValue is what a deploy label's value becomes, by the rules of the GPU Operator's driver manager: what is not deployed, or
// paused already, stays; a value of somebody's own keeps its name.
func pausedValue(value string) string {
	switch {
	case value == "" || value == "false" || strings.Contains(value, paused):
		return value
	case value == "true" || len(value)+len("_"+paused) > validation.LabelValueMaxLength:
		return paused
	}
	return value + "_" + paused
}
