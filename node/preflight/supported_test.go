package preflight

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/devices"
)

// newList is an excerpt of a list of 560 or later: it marks the GPUs that the proprietary modules drive as
// well.
const newList = `{"chips": [
 {"devid": "0x15F8", "name": "Tesla P100-PCIE-16GB", "features": []},
 {"devid": "0x20B0", "name": "NVIDIA A100-SXM4-40GB", "features": ["kernelopen", "gsp_proprietary_supported"]},
 {"devid": "0x2901", "name": "NVIDIA B200", "features": ["kernelopen"]}
]}`

func TestLookup(t *testing.T) {
	t.Parallel()
	s := list(t, listText)
	assert.Equalf(t, 8, s.Len(), "rows")
	for _, c := range []struct {
		gpu  devices.GPU
		want Chip
	}{
		{gpu(k80, ""), Chip{"Tesla K80", "470.xx", false, true}},
		{gpu(v100, ""), Chip{"Tesla V100-SXM2-16GB", "", false, true}},
		{devices.GPU{Device: v100, SubVendor: 0x10de, SubDevice: 0x1307}, Chip{"Tesla V100-SXM2-16GB-LS", "", false, true}},
		{devices.GPU{Device: v100, SubVendor: 0x10de, SubDevice: 0x9999}, Chip{"Tesla V100-SXM2-16GB", "", false, true}},
		{devices.GPU{Device: h100, SubVendor: 1, SubDevice: 2}, Chip{"NVIDIA H100 80GB HBM3", "", true, true}},
	} {
		if got, ok := s.Lookup(c.gpu); !ok || got != c.want {
			t.Errorf("%+v: %+v, %v, want %+v", c.gpu, got, ok, c.want)
		}
	}
	if c, ok := s.Lookup(gpu(t4, "")); ok {
		t.Errorf("T4: %+v", c)
	}
	if c, _ := list(t, newList).Lookup(gpu(tooNew, "")); c.Proprietary || !c.Open {
		t.Errorf("B200: %+v", c)
	}
}

func TestReadSupported(t *testing.T) {
	t.Parallel()
	assert.ErrorIsf(t, assert.Err(ReadSupported(filepath.Join(t.TempDir(), "none"))), fs.ErrNotExist, "missing")
	file := filepath.Join(t.TempDir(), "list")
	for text, want := range map[string]string{
		listText: "", `{}`: "", "[]": "not a list of GPUs", `{"chips": [` + strings.Repeat("{},", maxRows) + "{}]}": "more than",
		strings.Repeat(" ", maxList+1): "larger than",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadSupported(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", text, err, want)
		}
	}
}

func TestFlavour(t *testing.T) {
	t.Parallel()
	both := []string{driverinfo.Proprietary, driverinfo.Open}
	gpus := func(ids ...uint16) (list []devices.GPU) {
		for _, id := range ids {
			list = append(list, gpu(id, ""))
		}
		return list
	}
	for _, c := range []struct {
		what, driver string
		have         []string
		list         string
		gpus         []devices.GPU
		requested    string
		want, reason string
	}{
		{"old default", "535.261.03", both, listText, gpus(a100), "auto", "proprietary", "before 560"},
		{"new default", "570.86.15", both, newList, gpus(a100), "auto", "open", "from 560 on"},
		{"one flavour", "418.226.00", both[:1], "{}", gpus(t4), "", "proprietary", "no other"},
		{"open only", "620.06.00", both[1:], newList, gpus(p100), "auto", "open", "no other"},
		{"one GPU without", "570.86.15", both, newList, gpus(a100, p100), "auto", "proprietary", "P100"},
		{"GPU that needs it", "570.86.15", both, newList, gpus(a100, tooNew), "auto", "open", "B200"},
		{"superchip on 535", "535.261.03", both, listText, gpus(gh200), "auto", "open", "GH200"},
		{"unlisted superchip", "535.261.03", both, "{}", gpus(0x2941), "auto", "open", "10de:2941"},
		{"not in the list", "535.261.03", both, listText, gpus(t4), "auto", "proprietary", "before 560"},
		{"not in the new list", "570.86.15", both, newList, gpus(t4), "auto", "open", "from 560"},
		{"no list", "570.86.15", both, "{}", gpus(p100), "auto", "open", "from 560"},
		{"asked for", "535.261.03", both, listText, gpus(p100), "open", "open", "asked for"},
		{"asked for the other", "570.86.15", both, newList, gpus(a100), "proprietary", "proprietary", "asked for"},
		{"not there", "418.226.00", both[:1], "{}", gpus(t4), "open", "", "the image has no open kernel modules, only proprietary"},
		{"no word", "535.261.03", both, listText, nil, "closed", "", `kernel module type "closed" is not known: use auto, open, proprietary`},
	} {
		info := image()
		info.Driver, info.Flavours = c.driver, c.have
		got, reason, err := Flavour(info, driverinfo.Kernel{Release: release}, nil, list(t, c.list), c.gpus, c.requested)
		if err != nil {
			reason = err.Error()
			if !errors.As(err, new(*FlavourError)) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %q (%s), want %q (%s)", c.what, got, reason, c.want, c.reason)
		}
	}
}

// TestFlavourOfKernel: only the flavours that the image has for this kernel count, not those for others.
func TestFlavourOfKernel(t *testing.T) {
	t.Parallel()
	const p, o = driverinfo.Proprietary, driverinfo.Open
	for _, c := range []struct {
		what            string
		serves          []string
		gpu             uint16
		requested, want string
		reason          string
	}{
		{"both", []string{o, p}, a100, "auto", p, "the default of drivers before 560"},
		{"only proprietary", []string{p}, a100, "auto", p, "the image has no other for this kernel"},
		{"only open", []string{o}, a100, "auto", o, "the image has no other for this kernel"},
		{"only proprietary, open is needed", []string{p}, gh200, "auto", p, "no other for this kernel"}, // the check of flavours blocks
		{"open is asked for", []string{p}, a100, "open", "", "for kernel " + release + " the image has no open kernel modules, only proprietary"},
		{"nothing for this kernel", nil, a100, "open", o, "asked for"}, // the check of modules blocks
	} {
		got, reason, err := Flavour(image(), driverinfo.Kernel{Release: release}, c.serves, list(t, listText), []devices.GPU{gpu(c.gpu, "")}, c.requested)
		if err != nil {
			reason = err.Error()
		}
		if got != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %q (%s), want %q (%s)", c.what, got, reason, c.want, c.reason)
		}
	}
}

// FuzzReadSupported: no text causes a panic, and names are fit for a terminal.
func FuzzReadSupported(f *testing.F) {
	f.Add([]byte(listText))
	f.Add([]byte(newList))
	f.Add([]byte(`{"chips":[{"devid":"0x1","name":"\u001b[31m"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSupported(data)
		if err != nil {
			return
		}
		for id, c := range s.boards {
			if len(c.Name) > maxName || oneLine(c.Name) != c.Name || oneLine(c.Legacy) != c.Legacy {
				t.Errorf("%+v: %q, %q", id, c.Name, c.Legacy)
			}
			g := devices.GPU{Device: id.device, SubVendor: id.subVendor, SubDevice: id.subDevice}
			if _, ok := s.Lookup(g); !ok {
				t.Errorf("%+v is not found", id)
			}
			if _, _, err := Flavour(image(), driverinfo.Kernel{Release: release}, nil, s, []devices.GPU{g}, ""); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFlavourBroken: auto takes the flavour that works on the kernel; a request, a GPU and modules of the
// image count more.
func TestFlavourBroken(t *testing.T) {
	t.Parallel()
	const reason = "pci_resize_resource has four arguments"
	for _, c := range []struct {
		what, driver, version, requested string
		broken                           []driverinfo.Broken
		precompiled                      []driverinfo.Precompiled
		want, why                        string
	}{
		{"the default works", "535.261.03", "6.1.192", "", []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: []string{"open"}, Reason: reason}}, nil, "proprietary", "before 560"},
		{"the default is broken", "570.211.01", "6.1.192", "auto", []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: []string{"open"}, Reason: reason}}, nil, "proprietary", reason},
		{"an older release", "570.211.01", "6.1.186", "auto", []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: []string{"open"}, Reason: reason}}, nil, "open", "from 560 on"},
		{"an unknown release", "570.211.01", "", "auto", []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: []string{"open"}, Reason: reason}}, nil, "open", "from 560 on"},
		{"asked for", "570.211.01", "6.1.192", "open", []driverinfo.Broken{{From: "6.1.187", Flavours: []string{"open"}, Reason: reason}}, nil, "open", "asked for"},
		{"both are broken", "570.211.01", "6.1.192", "", []driverinfo.Broken{{From: "6.1.187", Reason: reason}}, nil, "open", "from 560 on"},
		{"compiled before", "570.211.01", "6.1.192", "", []driverinfo.Broken{{From: "6.1.187", Flavours: []string{"open"}, Reason: reason}},
			[]driverinfo.Precompiled{{Kernel: release, Flavour: "open"}}, "open", "from 560 on"},
	} {
		info := image()
		info.Driver, info.Kernel.Broken, info.Precompiled = c.driver, c.broken, c.precompiled
		got, why, err := Flavour(info, driverinfo.Kernel{Release: release, Version: c.version}, nil, list(t, listText), nil, c.requested)
		require.NoErrorf(t, err, "%s", c.what)
		assert.Equalf(t, c.want, got, "%s", c.what)
		assert.Containsf(t, why, c.why, "%s", c.what)
	}
}
