package preflight

import (
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
		{devices.GPU{Function: devices.Function{Device: v100}, SubVendor: 0x10de, SubDevice: 0x1307}, Chip{"Tesla V100-SXM2-16GB-LS", "", false, true}},
		{devices.GPU{Function: devices.Function{Device: v100}, SubVendor: 0x10de, SubDevice: 0x9999}, Chip{"Tesla V100-SXM2-16GB", "", false, true}},
		{devices.GPU{Function: devices.Function{Device: h100}, SubVendor: 1, SubDevice: 2}, Chip{"NVIDIA H100 80GB HBM3", "", true, true}},
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

// TestFlavour: a request is followed; auto follows what a GPU requires, what the image has for the kernel, what works
// on it, and the default of NVIDIA's installer.
func TestFlavour(t *testing.T) {
	t.Parallel()
	const p, o, works = driverinfo.Proprietary, driverinfo.Open, "pci_resize_resource has four arguments"
	both := []string{p, o}
	gpus := func(ids ...uint16) (list []devices.GPU) {
		for _, id := range ids {
			list = append(list, gpu(id, ""))
		}
		return list
	}
	broken := func(flavours ...string) *driverinfo.KernelRule {
		return &driverinfo.KernelRule{Broken: []driverinfo.Broken{{From: "6.1.187", Below: "6.2", Flavours: flavours, Reason: works}}}
	}
	for _, c := range []struct {
		what, driver string
		have, serves []string // of the image, and of it for this kernel
		list         string
		gpus         []devices.GPU
		requested    string
		version      string // of kernel.org
		rule         *driverinfo.KernelRule
		want, reason string
	}{
		{"old default", "535.261.03", both, nil, listText, gpus(a100), "auto", "", nil, p, "before 560"},
		{"new default", "570.86.15", both, nil, newList, gpus(a100), "auto", "", nil, o, "from 560 on"},
		{"one flavour", "418.226.00", both[:1], nil, "{}", gpus(t4), "", "", nil, p, "no other"},
		{"open only", "620.06.00", both[1:], nil, newList, gpus(p100), "auto", "", nil, o, "no other"},
		{"one GPU without", "570.86.15", both, nil, newList, gpus(a100, p100), "auto", "", nil, p, "P100"},
		{"GPU that needs it", "570.86.15", both, nil, newList, gpus(a100, tooNew), "auto", "", nil, o, "B200"},
		{"superchip on 535", "535.261.03", both, nil, listText, gpus(gh200), "auto", "", nil, o, "GH200"},
		{"unlisted superchip", "535.261.03", both, nil, "{}", gpus(0x2941), "auto", "", nil, o, "10de:2941"},
		{"not in the list", "535.261.03", both, nil, listText, gpus(t4), "auto", "", nil, p, "before 560"},
		{"not in the new list", "570.86.15", both, nil, newList, gpus(t4), "auto", "", nil, o, "from 560"},
		{"no list", "570.86.15", both, nil, "{}", gpus(p100), "auto", "", nil, o, "from 560"},
		{"asked for", "535.261.03", both, nil, listText, gpus(p100), o, "", nil, o, "asked for"},
		{"asked for the other", "570.86.15", both, nil, newList, gpus(a100), p, "", nil, p, "asked for"},
		{"not there", "418.226.00", both[:1], nil, "{}", gpus(t4), o, "", nil, "", "the image has no open kernel modules, only proprietary"},
		{"no word", "535.261.03", both, nil, listText, nil, "closed", "", nil, "", `kernel module type "closed" is not known: use auto, open, proprietary`},

		{"only proprietary for this kernel", "535.261.03", both, []string{p}, listText, gpus(a100), "auto", "", nil, p, "the image has no other for this kernel"},
		{"only open for this kernel", "535.261.03", both, []string{o}, listText, gpus(a100), "auto", "", nil, o, "the image has no other for this kernel"},
		{"open is needed", "535.261.03", both, []string{p}, listText, gpus(gh200), "auto", "", nil, p, "no other for this kernel"}, // the check of flavours blocks
		{"open is asked for", "535.261.03", both, []string{p}, listText, nil, o, "", nil, "", "for kernel " + release + " the image has no open kernel modules, only proprietary"},

		{"the default works", "535.261.03", both, nil, listText, nil, "", "6.1.192", broken(o), p, "before 560"},
		{"the default is broken", "570.211.01", both, nil, listText, nil, "auto", "6.1.192", broken(o), p, works},
		{"an older release", "570.211.01", both, nil, listText, nil, "auto", "6.1.186", broken(o), o, "from 560 on"},
		{"an unknown release", "570.211.01", both, nil, listText, nil, "auto", "", broken(o), o, "from 560 on"},
		{"broken, and asked for", "570.211.01", both, nil, listText, nil, o, "6.1.192", broken(o), o, "asked for"},
		{"both are broken", "570.211.01", both, nil, listText, nil, "", "6.1.192", broken(), o, "from 560 on"},
	} {
		info := image()
		info.Driver, info.Flavours = c.driver, c.have
		if c.rule != nil {
			info.Kernel = *c.rule
		}
		got, reason, err := Flavour(info, driverinfo.Kernel{Release: release, Version: c.version}, c.serves, list(t, c.list), c.gpus, c.requested)
		if err != nil {
			reason = err.Error()
		}
		assert.Equalf(t, c.want, got, "%s", c.what)
		assert.Containsf(t, reason, c.reason, "%s", c.what)
	}
	info := image() // modules of the image count more than what a compile would do
	info.Driver, info.Kernel, info.Precompiled = "570.211.01", *broken(o), []driverinfo.Precompiled{{Kernel: release, Flavour: o}}
	got, _, err := Flavour(info, driverinfo.Kernel{Release: release, Version: "6.1.192"}, nil, list(t, listText), nil, "")
	require.NoError(t, err)
	assert.Equal(t, o, got)
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
			g := devices.GPU{Function: devices.Function{Device: id.device}, SubVendor: id.subVendor, SubDevice: id.subDevice}
			if _, ok := s.Lookup(g); !ok {
				t.Errorf("%+v is not found", id)
			}
			if _, _, err := Flavour(image(), driverinfo.Kernel{Release: release}, nil, s, []devices.GPU{g}, ""); err != nil {
				t.Error(err)
			}
		}
	})
}
