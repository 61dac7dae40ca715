package fabric

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/probe"
)

// Verdict is what the GPUs say about their registration with the fabric.
type Verdict struct {
	Pending string // GPUs whose registration has not ended; "" for none
	Failed  string // GPUs whose registration failed; "" for none
	Notes   []string
}

// Judge sorts GPUs by the state of their registration. A GPU without a fabric, or of a driver that does not
// know the question, is in none of the lists.
func Judge(all []probe.Device) Verdict {
	var v Verdict
	pending := map[string][]string{}
	var failed []string
	for _, d := range all {
		if d.Fabric == nil {
			continue
		}
		switch d.Fabric.State {
		case probe.FabricNotStarted, probe.FabricInProgress:
			pending[d.Fabric.State] = append(pending[d.Fabric.State], d.PCI)
		case probe.FabricCompleted:
			if d.Fabric.Error != "" {
				failed = append(failed, fmt.Sprintf("GPU %s: %s", d.PCI, d.Fabric.Error))
			}
		case probe.FabricUnknown:
			v.Notes = append(v.Notes, fmt.Sprintf("GPU %s: the state of the NVLink fabric is not known: %s", d.PCI, d.Fabric.Error))
		}
		if len(d.Fabric.Health) > 0 {
			v.Notes = append(v.Notes, fmt.Sprintf("GPU %s: the NVLink fabric is not healthy: %s", d.PCI, strings.Join(d.Fabric.Health, ", ")))
		}
	}
	var parts []string
	for _, state := range []string{probe.FabricNotStarted, probe.FabricInProgress} {
		if gpus := pending[state]; len(gpus) > 0 {
			parts = append(parts, fmt.Sprintf("%s on %d of %d GPUs (%s)", state, len(gpus), len(all), strings.Join(gpus, ", ")))
		}
	}
	if len(parts) > 0 {
		v.Pending = "the registration with the NVLink fabric is " + strings.Join(parts, ", ")
	}
	if len(failed) > 0 {
		slices.Sort(failed)
		v.Failed = "the registration with the NVLink fabric failed: " + strings.Join(failed, "; ")
	}
	return v
}
