package probe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSMI(t *testing.T) {
	t.Parallel()
	const two = "GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nGPU-2, A, B, 0001:AF:1F.7, 535.261.03\n\n"
	got, err := parseSMI([]byte(two))
	want := Answer{Driver: "535.261.03", Source: SourceSMI, Devices: []Device{t4[0], {UUID: "GPU-2", Name: "A, B", PCI: "0001:af:1f.7"}}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for text, want := range map[string]string{
		"GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nUnable to determine the device handle for GPU 0000:05:00.0: GPU is lost.\n": "GPU is lost.",
		"GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\n[GPU is lost], X, 00000000:05:00.0, 535.261.03\n":                           "incomplete answer about a GPU: [GPU is lost], X",
	} {
		got, err := parseSMI([]byte(text))
		if err != nil || len(got.Devices) != 1 || !strings.Contains(got.Err, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "\n", "GPU-1, T4, nonsense, 1", ", T4, 0000:01:00.0, 1", strings.Repeat("GPU-1, T4, 0:0:0.0, 1\n", maxDevices+1)} {
		if got, err := parseSMI([]byte(bad)); err == nil {
			t.Errorf("%.40q: %+v", bad, got)
		}
	}
}

func TestParseProbe(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "[]", "{} {}", `{"devices":[]}`, `{"driver":"\u0000","devices":[]}`, `{"driver":"1","devices":[{"uuid":"x","pci":"0000:01:00"}]}`,
		`{"driver":"1","devices":[{"uuid":"","pci":"0000:01:00.0"}]}`,
		`{"driver":"1","devices":[` + strings.Repeat(`{"uuid":"x","pci":"0:1:0.0"},`, maxDevices) + `{"uuid":"x","pci":"0:1:0.0"}]}`,
	} {
		if got, err := parseProbe([]byte(bad)); err == nil {
			t.Errorf("%.60q: %+v", bad, got)
		}
	}
}

func TestSysfs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"00000000:05:00.0": "0000:05:00.0", "00010000:AB:1f.7": "10000:ab:1f.7", "0:0:0.0": "0000:00:00.0",
		"05:00.0": "", "0000:05:20.0": "", "0000:05:00.8": "", "": "", "0000:05:00": "", "-1:05:00.0": "", "100000000:05:00.0": "",
	} {
		if got, ok := sysfs(in); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "no output", "a\nb\r\n\n": "b", "\x1b[1mx\x1b[0m": "[1mx[0m", strings.Repeat("é", 400): strings.Repeat("é", 150)} {
		if got := lastLine([]byte(in)); got != want {
			t.Errorf("%.20q: %q", in, got)
		}
	}
}

func check(t *testing.T, a Answer, err error) {
	t.Helper()
	if err != nil {
		return
	}
	if len(a.Devices) > maxDevices {
		t.Errorf("%d devices", len(a.Devices))
	}
	for _, d := range a.Devices {
		if again, ok := sysfs(d.PCI); !ok || again != d.PCI || d.UUID == "" {
			t.Errorf("%+v", d)
		}
	}
	text, err := json.Marshal(a)
	if err != nil || strings.ContainsAny(a.Err+a.Driver, "\n\x1b\x00") {
		t.Errorf("%s, %v", text, err)
	}
}

func FuzzParseProbe(f *testing.F) {
	f.Add([]byte(nvmlOne[2:]))
	f.Add([]byte(`{"devices":[],"error":"nvmlInit: Not Found"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseProbe(b)
		check(t, a, err)
	})
}

func FuzzParseSMI(f *testing.F) {
	f.Add([]byte("GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\n[GPU is lost], X, 0000:05:00.0, 1\nUnable\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseSMI(b)
		check(t, a, err)
	})
}
