package probe

// What driver-probe says of a GPU besides its names: see cmd/driver-probe.

// Fabric is the state of a GPU's registration with its NVLink fabric. CUDA does not start before it
// is completed.
type Fabric struct {
	State string `json:"state"`
	// why the registration failed, or the state is not known
	Error  string   `json:"error,omitempty"`
	Health []string `json:"health,omitempty"` // what is wrong with the fabric
}

// States of a registration. A GPU without a fabric has none.
const (
	FabricNotStarted = "not started"
	FabricInProgress = "in progress"
	FabricCompleted  = "completed"
	FabricUnknown    = "unknown"
)

// Licence is the state of a GPU's vGPU licence, as NVML has it.
type Licence struct {
	Licensed bool   `json:"licensed"`
	Until    string `json:"until,omitempty"` // when it expires, RFC 3339
	Error    string `json:"error,omitempty"` // why the state is not known
}

// String is "licensed until 2026-01-02T03:04:05Z", "unlicensed" or "unknown: ...".
func (l *Licence) String() string {
	switch {
	case l == nil:
		return ""
	case l.Error != "":
		return "unknown: " + l.Error
	case !l.Licensed:
		return "unlicensed"
	case l.Until != "":
		return "licensed until " + l.Until
	}
	return "licensed"
}
