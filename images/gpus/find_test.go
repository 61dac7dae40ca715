package gpus

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		want  string // the first GPU
		least int    // number of GPUs
	}{
		{"10de:1eb8", "10de:1eb8", 1},
		{"1eb8", "10de:1eb8", 1},
		{"0x1EB8", "10de:1eb8", 1},
		{"10DE1EB8", "10de:1eb8", 1},
		{"0x10de:0x1eb8", "10de:1eb8", 1},
		{"Tesla T4", "10de:1eb8", 1},
		{"tesla-t4", "10de:1eb8", 1},
		{"NVIDIA-A100-SXM4-40GB", "10de:20b0", 1}, // as in the labels of GPU feature discovery
		{"NVIDIA Tesla T4", "10de:1eb8", 1},
		{"H100 PCIe", "10de:2331", 1},
		{"GeForce RTX 2080 with Max-Q Design", "10de:1e90", 2}, // the name of other boards
		{"K80", "10de:102d", 1},
		{"H100", "10de:2339", 9}, // the one of that name, then all that have the word: SXM5, PCIe, NVL
		{"RTX 5090", "10de:2b85", 3},
		{"TU104", "10de:1e81", 20},
		{"Kepler", "10de:0fc0", 150},
		{"pre-Fermi", "10de:0020", 400},
	} {
		got, err := Find(c.text)
		if err != nil || len(got) < c.least || got[0].ID() != c.want {
			t.Errorf("Find(%q) = %v, %v; want %d or more, the first %s", c.text, got, err, c.least, c.want)
		}
		if c.least == 1 && c.text != "K80" && len(got) != 1 {
			t.Errorf("Find(%q) found %d GPUs, want one", c.text, len(got))
		}
	}
}

func TestFindRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"GeForce RTX 2O80": "GeForce RTX 2080", "": `GPU "" is not in the list`, " ": "is not in the list", "no such GPU": "is not in the list",
		"1002:67df": "is a device of vendor 1002, not of NVIDIA (10de)", string(make([]byte, 1<<20)): "is not in the list",
	} {
		if got, err := Find(text); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 8*maxText {
			t.Errorf("Find(%.40q) = %v, %.200v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"fffe", "10de:fffe"} {
		if got, err := Find(text); err != nil || len(got) != 1 || got[0].Generation != UnknownGeneration || got[0].Device != 0xfffe {
			t.Errorf("Find(%q) = %v, %v; want a GPU that is not known", text, got, err)
		}
	}
}

// dropped are the signs that GPU feature discovery leaves out of names: sanitise in internal/lm/resource.go of
// https://github.com/NVIDIA/k8s-device-plugin.
var dropped = regexp.MustCompile("[^A-Za-z0-9-_. ]")

// TestNamed: every name of the list is known in the spelling of GPU feature discovery, with what it adds for
// parts and shared GPUs, and with and without the vendor's name.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, g := range All() {
		for _, name := range g.Names() {
			bare := strings.TrimPrefix(name, "NVIDIA ")
			if bare == "Graphics Device" {
				continue // what the driver calls a GPU that it has no name for
			}
			for _, whole := range []string{bare, "NVIDIA " + bare} {
				label := strings.Join(strings.Fields(dropped.ReplaceAllString(whole, "")), "-")
				for _, added := range []string{"", "-SHARED", "-MIG-1g.5gb", "-MIG-3g.20gb-SHARED"} {
					if !slices.ContainsFunc(Named(label+added), func(o GPU) bool { return o.Device == g.Device }) {
						t.Errorf("Named(%q) lacks %s %s", label+added, g.ID(), name)
					}
				}
			}
		}
	}
	for label, want := range map[string]string{ // the chips of what is found
		"NVIDIA-GeForce-RTX-5090-Laptop-GPU": "GB203", "NVIDIA-GeForce-RTX-5050-Laptop-GPU": "GB207", "NVIDIA-GeForce-RTX-5060-Laptop-GPU": "GB206",
		"NVIDIA-H100-80GB-HBM2e": "GH100", "NVIDIA-A800-40GB-PCIe": "GA100", "A100-SXM4-40GB-MIG-1g.5gb-SHARED": "GA100", "NVIDIA-GB300": "GB110",
		"nvidia-tesla-p100": "GP100", "nvidia-tesla-v100": "GV100", "nvidia-tesla-a100": "GA100", "nvidia-h100-mega-80gb": "GH100", "v100": "GV100", "k80": "GK210",
		"l40s": "AD102", "nvidia-l4-vws": "AD104", "rtx-pro-server-6000": "GB202", "nvidia-rtx-pro-6000": "GB202",
		"NVIDIA-Graphics-Device": "", "nvidia": "", "NVIDIA-GeForce-RTX-6090": "", "": "", "-SHARED": "",
		"4": "", "1": "", "80GB": "", "gpu-2": "", "4000": "", "true": "", "g4dn": "", "vgpu": "", "nvidia-tesla": "", "A100-80GB": "GA100",
	} {
		var chips []string
		for _, g := range Named(label) {
			chips = append(chips, g.Chip)
		}
		slices.Sort(chips)
		if got := strings.Join(slices.Compact(chips), " "); got != want {
			t.Errorf("Named(%q) has the chips %q, want %q", label, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, text := range []string{"10de:1eb8", "Tesla T4", "1002:67df", "NVIDIA-A100-SXM4-40GB", "\x00\xff", "-- --"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Find(text)
		if (err == nil) != (len(got) > 0) {
			t.Errorf("Find(%q) = %v, %v: GPUs and an error, or neither", text, got, err)
		}
		Named(text)
	})
}
