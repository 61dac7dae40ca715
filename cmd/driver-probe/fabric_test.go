package main

import (
	"encoding/json"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestFabric(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  uint8
		status nvml.Return
		ret    nvml.Return
		want   string
	}{
		"no fabric":      {want: `null`},
		"no such call":   {ret: nvml.ERROR_NOT_SUPPORTED, want: `null`},
		"not started":    {state: 1, want: `{"state":"not started"}`},
		"in progress":    {state: 2, status: nvml.ERROR_UNKNOWN, want: `{"state":"in progress"}`},
		"completed":      {state: 3, want: `{"state":"completed"}`},
		"failed":         {state: 3, status: nvml.ERROR_TIMEOUT, want: `{"state":"completed","error":"` + nvml.ERROR_TIMEOUT.Error() + `"}`},
		"a new state":    {state: 9, want: `{"state":"unknown"}`},
		"another answer": {ret: nvml.ERROR_GPU_IS_LOST, want: `{"state":"unknown","error":"` + nvml.ERROR_GPU_IS_LOST.Error() + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lib := fake("")
			lib.ExtensionsFunc = func() nvml.ExtendedInterface { return symbols(fabricSymbol) }
			dev := &mock.Device{GetGpuFabricInfoFunc: func() (nvml.GpuFabricInfo, nvml.Return) {
				return nvml.GpuFabricInfo{State: c.state, Status: uint32(c.status)}, c.ret
			}}
			got := require.Value(json.Marshal(fabricOf(lib, dev)))(t)
			assert.Equal(t, c.want, string(got))
		})
	}
	if got := fabricOf(fake(""), &mock.Device{}); got != nil { // a mock panics when it is asked
		t.Errorf("a library without the call: %+v", got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	for mask, want := range map[uint32][]string{
		0: nil, 0b10_10_10_10: nil, 0b01: {"degraded bandwidth"}, 0b01_10_01_00: {"route recovery in progress", "access timeout recovery"},
		0b01_00_00: {"route unhealthy"}, 1 << 8: nil, 4 << 8: {"incorrect configuration (4)"},
	} {
		assert.Same(t, want, health(mask))
	}
}
