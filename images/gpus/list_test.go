package gpus

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/images/matrix"
)

// TestTable reads the whole table strictly, and compares each line with the rules for its generation.
func TestTable(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^[0-9a-f]{4}\t([A-Z0-9]+|-)(\t([0-9]{2,3}|-)){2}\t(o|p|po|po[0-9]{3})\t[0-9-]*\t[^\t]+$`)
	for text := range strings.Lines(table) {
		if !strings.HasPrefix(text, "#") && !line.MatchString(strings.TrimSuffix(text, "\n")) {
			t.Errorf("the line %q", text)
		}
	}
	all := All()
	if len(all) < 1400 || !slices.IsSortedFunc(all, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Device, b.Device), -1) }) {
		t.Fatalf("%d GPUs in order; the lists have more than 1400", len(all))
	}
	last := map[string]string{"Fermi": "R390", "Kepler": "R470", "Maxwell": "R580", "Pascal": "R580", "Volta": "R580"}
	seen := map[string]int{}
	for _, g := range all {
		seen[g.Generation]++
		want, old := last[g.Generation]
		switch {
		case g.Generation == PreFermi:
			if n := matrix.Major(g.LastBranch); n == 0 || n > 340 {
				t.Errorf("%s %s: last branch %q of a GPU before Fermi", g.ID(), g.Name, g.LastBranch)
			}
		case strings.HasPrefix(g.Name, "GRID K") && g.LastBranch == "R367": // NVIDIA moved three boards to the branch of their vGPU
		case g.LastBranch != want:
			t.Errorf("%s %s (%s): last branch %q, want %q", g.ID(), g.Name, g.Generation, g.LastBranch, want)
		case old && slices.Contains(g.Flavours, matrix.Open), g.Generation == "Blackwell" && slices.Contains(g.Flavours, matrix.Proprietary):
			t.Errorf("%s %s (%s): flavours %v", g.ID(), g.Name, g.Generation, g.Flavours)
		case g.FirstBranch == "":
			t.Errorf("%s %s: no first branch", g.ID(), g.Name)
		}
	}
	for _, g := range Generations() {
		if seen[g] < 20 {
			t.Errorf("%d GPUs of %s", seen[g], g)
		}
	}
}

// TestLookup is about GPUs whose facts are known from elsewhere, one or more of each generation.
func TestLookup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		device                                  uint16
		name, generation, first, last, flavours string
	}{
		{0x0191, "GeForce 8800 GTX", PreFermi, "", "R340", "proprietary"},
		{0x06c0, "GeForce GTX 480", "Fermi", "R390", "R390", "proprietary"},
		{0x102d, "Tesla K80", "Kepler", "R390", "R470", "proprietary"},
		{0x0ff2, "GRID K1", "Kepler", "R390", "R367", "proprietary"},
		{0x13f2, "Tesla M60", "Maxwell", "R390", "R580", "proprietary"},
		{0x15f8, "Tesla P100-PCIE-16GB", "Pascal", "R390", "R580", "proprietary"},
		{0x1db1, "Tesla V100-SXM2-16GB", "Volta", "R390", "R580", "proprietary"},
		{0x1eb8, "Tesla T4", "Turing", "R418", "", "proprietary open"},        // in no list after 470
		{0x2189, "NVIDIA CMP 30HX", "Turing", "R418", "", "proprietary open"}, // open from R565
		{0x1e09, "NVIDIA CMP 50HX", "Turing", "R418", "", "proprietary open"},
		{0x1f0b, "NVIDIA CMP 40HX", "Turing", "R418", "", "proprietary open"},
		{0x20b0, "NVIDIA A100-SXM4-40GB", "Ampere", "R450", "", "proprietary open"},
		{0x2235, "NVIDIA A40", "Ampere", "R460", "", "proprietary open"},
		{0x27b8, "NVIDIA L4", "Ada", "R525", "", "proprietary open"},
		{0x2331, "NVIDIA H100 PCIe", "Hopper", "R520", "", "proprietary open"},
		{0x2342, "NVIDIA GH200 120GB", "Hopper", "R520", "", "open"},
		{0x2901, "NVIDIA B200", "Blackwell", "R570", "", "open"},
		{0x2b85, "NVIDIA GeForce RTX 5090", "Blackwell", "R570", "", "open"},
		{0x3182, "NVIDIA B300 SXM6 AC", "Blackwell", "R580", "", "open"}, // newer chips of the generation
		{0x31c2, "NVIDIA GB300", "Blackwell", "R580", "", "open"},
		{0x2e12, "NVIDIA GB10", "Blackwell", "R580", "", "open"},
	} {
		g, ok := Lookup(c.device)
		if flavours := strings.Join(g.Flavours, " "); !ok || g.Name != c.name || g.Generation != c.generation || g.FirstBranch != c.first ||
			g.LastBranch != c.last || flavours != c.flavours {
			t.Errorf("Lookup(%04x) = %+v, %v; want %+v", c.device, g, ok, c)
		}
	}
	for _, device := range []uint16{0, 0x10f8 /* audio */, 0x22a3 /* NVSwitch */, 0xffff} {
		if g, ok := Lookup(device); ok {
			t.Errorf("Lookup(%04x) = %+v, which is no GPU", device, g)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		device          uint16
		driver, flavour string
		want            string // in the error; "": it drives it
	}{
		{0x06c0, "390.157", matrix.Proprietary, ""},
		{0x06c0, "418.226.00", "", "R390 is the last branch that drives it"},
		{0x102d, "470.256.02", "", ""},
		{0x102d, "R535", "", "R470 is the last branch"},
		{0x1db1, "580.173.02", matrix.Proprietary, ""},
		{0x1db1, "580.173.02", matrix.Open, "it needs the proprietary modules"},
		{0x1db1, "590.48.01", "", "R580 is the last branch"},
		{0x1eb8, "418.87.01", "", ""},
		{0x1eb8, "390.157", "", "TU104 (Turing) is in no list before that of R418"},
		{0x27b8, "470.256.02", "", "AD104 (Ada) is in no list before that of R525"},
		{0x2331, "520.61.07", "", ""},
		{0x3182, "570.211.01", "", "GB110 (Blackwell) is in no list before that of R580"},
		{0x3182, "580.178.04", matrix.Open, ""},
		{0x2189, "550.163.01", matrix.Open, "the open modules drive it from R565 on"},
		{0x2189, "550.163.01", "", ""},
		{0x2189, "570.211.01", matrix.Open, ""},
		{0x2901, "580.173.02", matrix.Proprietary, "it needs the open modules"},
		{0x2901, "580.173.02", matrix.Open, ""},
		{0x2901, "not a version", "", ""},
	} {
		g, _ := Lookup(c.device)
		switch err := g.Check(c.driver, c.flavour); {
		case c.want == "" && err != nil:
			t.Errorf("%s: Check(%s, %s) = %v", g.Name, c.driver, c.flavour, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: Check(%s, %s) = %v, want %q", g.Name, c.driver, c.flavour, err, c.want)
		}
	}
	for _, driver := range []string{"515.65.01", "535.261.03", "999.1"} {
		if err := Unknown(0xfffe).Check(driver, matrix.Open); err != nil {
			t.Errorf("an unknown GPU was refused: %v", err)
		}
	}
}
