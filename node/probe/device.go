package probe

import "time"

// Fabric is the state of a GPU's registration with its NVLink fabric. CUDA does not start before it is
// completed.
type Fabric struct {
	State  string   `json:"state"`
	Error  string   `json:"error,omitempty"`  // why the registration failed, or the state is not known
	Health []string `json:"health,omitempty"` // what is wrong with the fabric
}

// States of a registration. A GPU without a fabric has none.
const (
	FabricNotStarted = "not started"
	FabricInProgress = "in progress"
	FabricCompleted  = "completed"
	FabricUnknown    = "unknown"
)

const maxHealth = 16 // words about one GPU

// checked returns a fabric whose texts can be shown. A state that is none of the known ones is unknown.
func (f *Fabric) checked() *Fabric {
	if f == nil {
		return nil
	}
	out := &Fabric{State: FabricUnknown, Error: clean(f.Error)}
	switch f.State {
	case FabricNotStarted, FabricInProgress, FabricCompleted:
		out.State = f.State
	case FabricUnknown:
	default:
		out.Error = "it is called " + clean(f.State)
	}
	for _, word := range f.Health[:min(len(f.Health), maxHealth)] {
		out.Health = append(out.Health, clean(word))
	}
	return out
}

// Licence is the state of a GPU's vGPU licence, as NVML has it.
type Licence struct {
	Product  string `json:"product,omitempty"`
	Licensed bool   `json:"licensed"`
	Until    string `json:"until,omitempty"` // when it expires, RFC 3339
	Error    string `json:"error,omitempty"` // why the state is not known
}

// checked returns a licence whose texts can be shown.
func (l *Licence) checked() *Licence {
	if l == nil {
		return nil
	}
	out := &Licence{Product: clean(l.Product), Licensed: l.Licensed, Error: clean(l.Error)}
	if at, err := time.Parse(time.RFC3339, l.Until); err == nil {
		out.Until = at.UTC().Format(time.RFC3339)
	}
	return out
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
