package main

import (
	"encoding/json"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestLicence(t *testing.T) {
	t.Parallel()
	feature := func(enabled, state uint32, expiry nvml.GridLicenseExpiry) nvml.GridLicensableFeature {
		return nvml.GridLicensableFeature{FeatureEnabled: enabled, FeatureState: state, LicenseExpiry: expiry}
	}
	valid := nvml.GridLicenseExpiry{Year: 2026, Month: 1, Day: 2, Hour: 3, Min: 4, Sec: 5, Status: nvml.GRID_LICENSE_EXPIRY_VALID}
	for name, c := range map[string]struct {
		supported int32
		features  []nvml.GridLicensableFeature
		count     uint32
		ret       nvml.Return
		want      string
	}{
		"a whole GPU":      {want: `null`},
		"not supported":    {ret: nvml.ERROR_NOT_SUPPORTED, want: `null`},
		"unknown":          {ret: nvml.ERROR_UNKNOWN, want: `{"licensed":false,"error":"ERROR_UNKNOWN"}`},
		"licensed":         {supported: 1, count: 1, features: []nvml.GridLicensableFeature{feature(1, 1, valid)}, want: `{"licensed":true,"until":"2026-01-02T03:04:05Z"}`},
		"without an end":   {supported: 1, count: 1, features: []nvml.GridLicensableFeature{feature(1, 1, nvml.GridLicenseExpiry{Status: nvml.GRID_LICENSE_EXPIRY_PERMANENT})}, want: `{"licensed":true}`},
		"unlicensed":       {supported: 1, count: 1, features: []nvml.GridLicensableFeature{feature(1, 0, nvml.GridLicenseExpiry{})}, want: `{"licensed":false}`},
		"the second one":   {supported: 1, count: 2, features: []nvml.GridLicensableFeature{feature(0, 0, valid), feature(1, 1, valid)}, want: `{"licensed":true,"until":"2026-01-02T03:04:05Z"}`},
		"none is enabled":  {supported: 1, count: 1, features: []nvml.GridLicensableFeature{feature(0, 0, valid)}, want: `{"licensed":false}`},
		"a count too high": {supported: 1, count: 4000000000, features: []nvml.GridLicensableFeature{feature(1, 0, valid)}, want: `{"licensed":false,"until":"2026-01-02T03:04:05Z"}`},
	} {
		lib := fake("")
		lib.ExtensionsFunc = func() nvml.ExtendedInterface { return symbols(licenceSymbol) }
		dev := &mock.Device{GetGridLicensableFeaturesFunc: func() (nvml.GridLicensableFeatures, nvml.Return) {
			f := nvml.GridLicensableFeatures{IsGridLicenseSupported: c.supported, LicensableFeaturesCount: c.count}
			copy(f.GridLicensableFeatures[:], c.features)
			return f, c.ret
		}}
		assert.Equalf(t, c.want, string(require.Value(json.Marshal(licenceOf(lib, dev)))(t)), "%s", name)
	}
	if got := licenceOf(fake(""), &mock.Device{}); got != nil { // a mock panics when it is asked
		t.Errorf("a library that does not know the question: %+v", got)
	}
}
