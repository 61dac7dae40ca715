package probe

import "time"

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
