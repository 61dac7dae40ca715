package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestParseSMI(t *testing.T) {
	t.Parallel()
	const two = "GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nGPU-2, A, B, 0001:AF:1F.7, 535.261.03\n\n"
	want := Answer{Driver: "535.261.03", Source: SourceSMI, Devices: []Device{t4[0], {UUID: "GPU-2", Name: "A, B", PCI: "0001:af:1f.7"}}}
	assert.Same(t, want, require.Value(parseSMI([]byte(two), false))(t))
	for text, want := range map[string]string{
		"GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nUnable to determine the device handle for GPU 0000:05:00.0: GPU is lost.\n": "GPU is lost.",
		"GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\n[GPU is lost], X, 00000000:05:00.0, 535.261.03\n":                           "incomplete answer about a GPU: [GPU is lost], X",
	} {
		got, err := parseSMI([]byte(text), false)
		if err != nil || len(got.Devices) != 1 || !strings.Contains(got.Err, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "\n", "GPU-1, T4, nonsense, 1", ", T4, 0000:01:00.0, 1", strings.Repeat("GPU-1, T4, 0:0:0.0, 1\n", maxDevices+1)} {
		assert.Errorf(t, assert.Err(parseSMI([]byte(bad), false)), "%.40q", bad)
	}
}

func TestParseUsage(t *testing.T) {
	t.Parallel()
	const gpu = "GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03, "
	memory := &Memory{Total: 15360 << 20, Used: 3 << 20}
	for text, want := range map[string]Device{
		gpu + "15360, 3, 100\n":                                     {Memory: memory, Utilization: new(1.0)},
		gpu + "15360, 3, [N/A]\n":                                   {Memory: memory}, // MIG
		gpu + "[Not Supported], [Not Supported], 0":                 {Utilization: new(0.0)},
		gpu + "15360 MiB, 3 MiB, 37 %":                              {},
		gpu + "-1, 3, 101":                                          {},
		"GPU-1, T, 4, 00000000:3B:00.0, 535.261.03, 15360, 3, 50\n": {Memory: memory, Utilization: new(0.5), Name: "T, 4"},
	} {
		want.UUID, want.PCI = "GPU-1", "0000:3b:00.0"
		if want.Name == "" {
			want.Name = "Tesla T4"
		}
		got := require.Value(parseSMI([]byte(text), true))(t)
		assert.Samef(t, Answer{Driver: "535.261.03", Source: SourceSMI, Devices: []Device{want}}, got, "%q", text)
	}
	for _, other := range []string{
		"Unable to determine the device handle, GPU 0000:05:00.0: GPU is lost.",
		"GPU-2, Tesla T4, 00000000:05:00.0, 535.261.03, 15360, [GPU is lost], 0", // NVIDIA's mock of NVML, with the real nvidia-smi
		"GPU-2, Tesla T4, 00000000:05:00.0, 535.261.03, 15360, 3, [Unknown Error]",
	} {
		got, err := parseSMI([]byte(gpu+"1, 2, 3\n"+other+"\n"), true)
		if err != nil || len(got.Devices) != 1 || !strings.Contains(other, strings.TrimPrefix(got.Err, "incomplete answer about a GPU: ")) || got.Err == "" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	const nvml = `{"driver":"1","devices":[{"uuid":"x","pci":"0:1:0.0","memory":{"total":5,"used":4},"utilization":25},{"uuid":"y","pci":"0:2:0.0","utilization":1e9}]}`
	devices := []Device{{UUID: "x", PCI: "0000:01:00.0", Memory: &Memory{5, 4}, Utilization: new(0.25)}, {UUID: "y", PCI: "0000:02:00.0"}}
	assert.Same(t, devices, require.Value(parse(nvml))(t).Devices)
}

func TestParseProbe(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "[]", "{} {}", `{"devices":[]}`, `{"driver":"\u0000","devices":[]}`, `{"driver":"1","devices":[{"uuid":"x","pci":"0000:01:00"}]}`,
		`{"driver":"1","devices":[{"uuid":"","pci":"0000:01:00.0"}]}`,
		`{"driver":"1","devices":[` + strings.Repeat(`{"uuid":"x","pci":"0:1:0.0"},`, maxDevices) + `{"uuid":"x","pci":"0:1:0.0"}]}`,
	} {
		assert.Errorf(t, assert.Err(parse(bad)), "%.60q", bad)
	}
}

func parse(text string) (Answer, error) {
	a, _, err := parseProbe([]byte(text))
	return a, err
}

func TestSysfs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"00000000:05:00.0": "0000:05:00.0", "00010000:AB:1f.7": "10000:ab:1f.7", "0:0:0.0": "0000:00:00.0",
		"05:00.0": "", "0000:05:20.0": "", "0000:05:00.8": "", "": "", "0000:05:00": "", "-1:05:00.0": "", "100000000:05:00.0": "",
	} {
		if got, ok := sysfsAddress(in); ok && got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "no output", "a\nb\r\n\n": "b", "\x1b[1mx\x1b[0m": "[1mx[0m", strings.Repeat("é", 400): strings.Repeat("é", 150)} {
		assert.Equalf(t, want, lastLine([]byte(in)), "%.20q", in)
	}
}

func check(t *testing.T, a Answer, err error) {
	t.Helper()
	if err != nil {
		return
	}
	assert.Equalf(t, false, len(a.Devices) > maxDevices, "%d devices", len(a.Devices))
	for _, d := range a.Devices {
		if d.Utilization != nil && !(*d.Utilization >= 0 && *d.Utilization <= 1) {
			t.Errorf("utilisation %v", *d.Utilization)
		}
		if again, ok := sysfsAddress(d.PCI); !ok || again != d.PCI || d.UUID == "" {
			t.Errorf("%+v", d)
		}
	}
	text, err := json.Marshal(a)
	assert.Equalf(t, false, err != nil || strings.ContainsAny(a.Err+a.Driver, "\n\x1b\x00"), "%s, %v", text, err)
}

func FuzzParseProbe(f *testing.F) {
	f.Add([]byte(nvmlOne[2:]))
	f.Add([]byte(`{"devices":[],"error":"nvmlInit: Not Found","code":6}`))
	f.Add([]byte(`{"driver":"1","devices":[{"uuid":"x","pci":"0:1:0.0","memory":{"total":5,"used":4},"utilization":25}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(string(b))
		check(t, a, err)
	})
}

func FuzzParseSMI(f *testing.F) {
	f.Add([]byte("GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\n[GPU is lost], X, 0000:05:00.0, 1\nUnable\n"))
	f.Add([]byte("GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03, 15360, 3, 37\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, usage := range []bool{false, true} {
			a, err := parseSMI(b, usage)
			check(t, a, err)
		}
	})
}

// TestParseCUDA: a version of another form is left out.
func TestParseCUDA(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"12.2": "12.2", "9.1": "9.1", "": "", "12": "", "12.2.1": "", "12.2\\n": "", "../12.2": ""} {
		got, err := parse(`{"driver":"535.261.03","cuda":"` + text + `","devices":[]}`)
		assert.NoErrorf(t, err, "%s", text)
		assert.Equalf(t, want, got.CUDA, "%s", text)
	}
}
