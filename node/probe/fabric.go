package probe

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
