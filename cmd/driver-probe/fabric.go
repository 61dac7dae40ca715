package main

import (
	"cmp"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// fabric is the state of a GPU's registration with its NVLink fabric.
type fabric struct {
	State string `json:"state"` // not started, in progress, completed, unknown
	// why the registration failed, or the state is unknown
	Error  string   `json:"error,omitempty"`
	Health []string `json:"health,omitempty"` // what NVML calls wrong with the fabric
}

// The calls about the fabric. A library that lacks one must not be asked: the program would end
// with an unresolved symbol.
const (
	fabricSymbol  = "nvmlDeviceGetGpuFabricInfo"  // since R525
	fabricSymbolV = "nvmlDeviceGetGpuFabricInfoV" // since R545, with the health
)

// fabricOf returns nil for a GPU without a fabric, and for a library that does not know the
// question.
func fabricOf(lib nvml.Interface, h nvml.Device) *fabric {
	has := func(symbol string) bool { return lib.Extensions().LookupSymbol(symbol) == nil }
	switch {
	case has(fabricSymbolV):
		info, ret := h.GetGpuFabricInfoV().V2()
		return describeFabric(info.State, nvml.Return(info.Status), info.HealthMask, ret)
	case has(fabricSymbol):
		info, ret := h.GetGpuFabricInfo()
		return describeFabric(info.State, nvml.Return(info.Status), 0, ret)
	}
	return nil
}

var states = map[uint8]string{
	nvml.GPU_FABRIC_STATE_NOT_STARTED: "not started", nvml.GPU_FABRIC_STATE_IN_PROGRESS: "in progress", nvml.GPU_FABRIC_STATE_COMPLETED: "completed",
}

func describeFabric(state uint8, status nvml.Return, mask uint32, ret nvml.Return) *fabric {
	switch {
	case ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.SUCCESS && state == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED:
		return nil
	case ret != nvml.SUCCESS:
		return &fabric{State: "unknown", Error: ret.Error()}
	}
	f := &fabric{State: cmp.Or(states[state], "unknown"), Health: health(mask)}
	// the status counts only now
	if state == nvml.GPU_FABRIC_STATE_COMPLETED && status != nvml.SUCCESS {
		f.Error = status.Error()
	}
	return f
}

// health returns what the mask says is wrong. Each part of it has a value for "not supported",
// which is no fault.
func health(mask uint32) (faults []string) {
	for _, part := range []struct {
		text                string
		shift, width, fault uint32
	}{
		{"degraded bandwidth", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE},
		{"route recovery in progress", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_RECOVERY_TRUE},
		{"route unhealthy", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_TRUE},
		{"access timeout recovery", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ACCESS_TIMEOUT_RECOVERY_TRUE},
	} {
		if mask>>part.shift&part.width == part.fault {
			faults = append(faults, part.text)
		}
	}
	configuration := mask >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
	if configuration > nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE {
		faults = append(faults, fmt.Sprintf("incorrect configuration (%d)", configuration))
	}
	return faults
}
