package gpulist

import (
	"errors"
	"slices"
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
	var unknown *UnknownError
	if _, err := Find("GeForce RTX 2O80"); !errors.As(err, &unknown) || !slices.Contains(unknown.Nearest, "GeForce RTX 2080") {
		t.Errorf("a name with a mistake: %v; want GeForce RTX 2080 among the nearest", err)
	}
	for _, text := range []string{"", " ", "fffe", "10de:fffe", "no such GPU", string(make([]byte, 1<<20))} {
		if got, err := Find(text); !errors.As(err, &unknown) || len(unknown.Text) > 2*maxText {
			t.Errorf("Find(%.40q) = %v, %.200v; want an UnknownError", text, got, err)
		}
	}
	var vendor *VendorError
	if _, err := Find("1002:67df"); !errors.As(err, &vendor) || vendor.Vendor != "1002" {
		t.Errorf("a device of another vendor: %v", err)
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
	})
}
