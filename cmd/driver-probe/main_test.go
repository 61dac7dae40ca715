package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// fake is a library with one device. fail names the call that fails, or a value that the device does not
// have: "no memory".
func fake(fail string) *mock.Interface {
	ret := func(name string) nvml.Return {
		switch fail {
		case name:
			return nvml.ERROR_UNKNOWN
		case "no " + name:
			return nvml.ERROR_NOT_SUPPORTED
		}
		return nvml.SUCCESS
	}
	dev := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return "GPU-1", ret("uuid") },
		GetNameFunc: func() (string, nvml.Return) { return "Tesla T4", ret("name") },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Domain: 1, Bus: 0x3b, Device: 2}, ret("pci")
		},
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 16 << 30, Used: 3 << 30}, ret("memory") },
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{Gpu: 37, Memory: 5}, ret("utilisation")
		},
	}
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return ret("init") },
		ShutdownFunc:               func() nvml.Return { return ret("shutdown") },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "535.261.03", ret("driver") },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, ret("count") },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return dev, ret("handle") },
		ExtensionsFunc:             func() nvml.ExtendedInterface { return symbols() },
	}
}

// symbols is a library that has these symbols.
func symbols(has ...string) *mock.ExtendedInterface {
	return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
		if slices.Contains(has, name) {
			return nil
		}
		return nvml.ERROR_FUNCTION_NOT_FOUND
	}}
}

func TestRun(t *testing.T) {
	t.Parallel()
	const device = `"devices":[{"uuid":"GPU-1","name":"Tesla T4","pci":"00000001:3b:02.0"}]`
	for fail, want := range map[string]string{
		"":         `{"driver":"535.261.03",` + device + "}\n",
		"init":     `{"devices":[],"error":"nvmlInit: `,
		"driver":   `"devices":[],"error":"nvmlSystemGetDriverVersion: `,
		"count":    `"devices":[],"error":"nvmlDeviceGetCount: `,
		"handle":   `"failed":["device 0: ERROR_UNKNOWN"]}`,
		"uuid":     `"failed":["device 0: uuid: `,
		"name":     `"failed":["device 0: name: `,
		"pci":      `"failed":["device 0: PCI address: `,
		"shutdown": device + `,"error":"nvmlShutdown: ERROR_UNKNOWN","code":999}`,
	} {
		lib := fake(fail)
		var stdout, stderr bytes.Buffer
		code := run(lib, nil, &stdout, &stderr)
		if (code == 0) != (fail == "") || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", fail, code, stdout.String(), stderr.String())
		}
		assert.Equalf(t, false, strings.Contains(stdout.String(), "memory"), "not asked for: %s", stdout.String())
		assert.Equalf(t, fail != "init", len(lib.ShutdownCalls()) == 1, "%s: a call of Shutdown", fail)
	}
}

// TestCUDA: the version is left out where NVML does not say, and nothing fails for it.
func TestCUDA(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		symbol  string
		version int
		ret     nvml.Return
		want    string
	}{
		{cudaSymbol, 12020, nvml.SUCCESS, `"cuda":"12.2","devices"`},
		{cudaSymbol, 13050, nvml.SUCCESS, `"cuda":"13.5","devices"`},
		{cudaSymbol, 9010, nvml.SUCCESS, `"cuda":"9.1","devices"`},
		{cudaSymbol, 0, nvml.SUCCESS, `"driver":"535.261.03","devices"`},
		{cudaSymbol, 12020, nvml.ERROR_LIBRARY_NOT_FOUND, `"driver":"535.261.03","devices"`},
		{"other", 12020, nvml.SUCCESS, `"driver":"535.261.03","devices"`},
	} {
		lib := fake("")
		lib.ExtensionsFunc = func() nvml.ExtendedInterface { return symbols(c.symbol) }
		lib.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) { return c.version, c.ret }
		var stdout, stderr bytes.Buffer
		if code := run(lib, nil, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%+v: exit code %d, %q, %q", c, code, stdout.String(), stderr.String())
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	const device = `{"uuid":"GPU-1","name":"Tesla T4","pci":"00000001:3b:02.0"`
	for fail, want := range map[string]string{
		"":               `"devices":[` + device + `,"memory":{"total":17179869184,"used":3221225472},"utilization":37}]}`,
		"no memory":      `"devices":[` + device + `,"utilization":37}]}`,
		"no utilisation": `"devices":[` + device + `,"memory":{"total":17179869184,"used":3221225472}}]}`,
		"memory":         `"devices":[],"failed":["device 0: memory: `,
		"utilisation":    `"devices":[],"failed":["device 0: utilisation: `,
	} {
		var stdout, stderr bytes.Buffer
		code := run(fake(fail), []string{"--usage"}, &stdout, &stderr)
		if (code == 0) != (fail == "" || strings.HasPrefix(fail, "no ")) || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", fail, code, stdout.String(), stderr.String())
		}
	}
}

// The first of three GPUs is lost: the others are described nevertheless.
func TestOneIsLost(t *testing.T) {
	t.Parallel()
	lib := fake("")
	good := lib.DeviceGetHandleByIndexFunc
	lib.DeviceGetCountFunc = func() (int, nvml.Return) { return 3, nvml.SUCCESS }
	lib.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 1 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return good(i)
	}
	a := ask(lib, false)
	assert.Equal(t, 1, len(a.Devices))
	assert.Same(t, []string{"device 0: ERROR_GPU_IS_LOST", "device 2: ERROR_GPU_IS_LOST"}, a.Failed)
	assert.Equalf(t, "", a.Error, "of the driver")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"usage"}, {"--usage", "x"}} {
		var stdout, stderr bytes.Buffer
		if code := run(fake(""), args, &stdout, &stderr); code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "--usage") {
			t.Errorf("%q: %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(fake("init"), []string{"--version"}, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "driver-probe ") {
		t.Errorf("%d, %q, %q", code, stdout.String(), stderr.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestRunCannotWrite(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(fake(""), nil, broken{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "no room") {
		t.Errorf("%d, %q", code, stderr.String())
	}
}
