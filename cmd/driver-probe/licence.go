package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// licence is the state of a GPU's vGPU licence.
type licence struct {
	Licensed bool `json:"licensed"`
	// when it expires, RFC 3339; "": it does not, or that is not known
	Until string `json:"until,omitempty"`
	Error string `json:"error,omitempty"` // why the state is not known
}

const licenceSymbol = "nvmlDeviceGetGridLicensableFeatures"

// licenceOf returns nil for a GPU that needs no licence, and for a library that does not know the
// question.
func licenceOf(lib nvml.Interface, h nvml.Device) *licence {
	if lib.Extensions().LookupSymbol(licenceSymbol) != nil {
		return nil
	}
	f, ret := h.GetGridLicensableFeatures()
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.SUCCESS && f.IsGridLicenseSupported == 0:
		return nil
	case ret != nvml.SUCCESS:
		return &licence{Error: ret.Error()}
	}
	out := &licence{}
	for _, feature := range f.GridLicensableFeatures[:min(int(f.LicensableFeaturesCount), len(f.GridLicensableFeatures))] {
		if feature.FeatureEnabled == 0 {
			continue
		}
		out.Licensed = feature.FeatureState != 0
		out.Until = ""
		if e := feature.LicenseExpiry; e.Status == nvml.GRID_LICENSE_EXPIRY_VALID {
			out.Until = fmt.Sprintf(
				"%04d-%02d-%02dT%02d:%02d:%02dZ",
				e.Year,
				e.Month,
				e.Day,
				e.Hour,
				e.Min,
				e.Sec,
			)
		}
		if out.Licensed {
			break
		}
	}
	return out
}
