package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// fake is a library with one device; fail names the call that does not work.
func fake(fail string) *mock.Interface {
	ret := func(name string) nvml.Return {
		if name == fail {
			return nvml.ERROR_UNKNOWN
		}
		return nvml.SUCCESS
	}
	dev := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return "GPU-1", ret("uuid") },
		GetNameFunc: func() (string, nvml.Return) { return "Tesla T4", ret("name") },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Domain: 1, Bus: 0x3b, Device: 2}, ret("pci")
		},
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return ret("init") },
		ShutdownFunc:               func() nvml.Return { return ret("shutdown") },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "535.261.03", ret("driver") },
		SystemGetNVMLVersionFunc:   func() (string, nvml.Return) { return "12.535.261.03", ret("nvml") },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, ret("count") },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return dev, ret("handle") },
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	const device = `"devices":[{"uuid":"GPU-1","name":"Tesla T4","pci":"00000001:3b:02.0"}]`
	for fail, want := range map[string]string{
		"":         `{"driver":"535.261.03","nvml":"12.535.261.03",` + device + "}\n",
		"init":     `{"devices":[],"error":"nvmlInit: `,
		"driver":   `"devices":[],"error":"nvmlSystemGetDriverVersion: `,
		"nvml":     `{"driver":"535.261.03","nvml":"12.535.261.03","devices":[],"error":"nvmlSystemGetNVMLVersion: `,
		"count":    `"devices":[],"error":"nvmlDeviceGetCount: `,
		"handle":   `"error":"device 0: `,
		"uuid":     `"error":"device 0: uuid: `,
		"name":     `"error":"device 0: name: `,
		"pci":      `"error":"device 0: PCI address: `,
		"shutdown": device + `,"error":"nvmlShutdown: `,
	} {
		lib := fake(fail)
		var stdout, stderr bytes.Buffer
		code := run(lib, &stdout, &stderr)
		if (code == 0) != (fail == "") || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", fail, code, stdout.String(), stderr.String())
		}
		if n := len(lib.ShutdownCalls()); (n == 1) != (fail != "init") {
			t.Errorf("%s: %d calls of Shutdown", fail, n)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestRunCannotWrite(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(fake(""), broken{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no room") {
		t.Errorf("%d, %q", code, stderr.String())
	}
}
