package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraryDirs are the folders of a driver root that every consumer searches: nvidia-ctk, the validator, the
// device plugin and the DRA driver have these in common.
var libraryDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	"lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
}

// programs are those that the toolkit gives to containers. nvidia-imex belongs to NVLink systems.
var programs = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
	"nvidia-imex", "nvidia-imex-ctl",
}

// firmwareDirs are where consumers look, and where the image keeps the firmware: a file that is only in the
// second is a mistake.
var firmwareDirs = []string{"lib/firmware/nvidia", "usr/share/nvidia-driver/firmware/nvidia"}

// essential libraries must be in every root.
var essential = []string{"libcuda.so.", "libnvidia-ml.so."}

// Expect returns what a complete and correct client finds in the driver root dir, which holds that version:
// file names only.
func Expect(dir, version string) (Inventory, error) {
	var want Inventory
	for _, lib := range libraryDirs {
		for _, sub := range []string{"", "vdpau"} {
			names, err := filepath.Glob(filepath.Join(dir, lib, sub, "*.so."+version))
			if err != nil {
				return want, fmt.Errorf("list the libraries of %s: %w", dir, err)
			}
			for _, n := range names {
				want.Libraries = append(want.Libraries, filepath.Base(n))
			}
		}
	}
	for _, name := range essential {
		want.Libraries = append(want.Libraries, name+version)
	}
	slices.Sort(want.Libraries)
	want.Libraries = slices.Compact(want.Libraries)
	want.Binaries = []string{"nvidia-smi"}
	for _, name := range programs[1:] {
		if info, err := os.Stat(filepath.Join(dir, "usr/bin", name)); err == nil && info.Mode().IsRegular() {
			want.Binaries = append(want.Binaries, name)
		}
	}
	slices.Sort(want.Binaries)
	for _, pattern := range []string{"gsp*.bin", "ucodes*.bin"} {
		for _, place := range firmwareDirs {
			names, err := filepath.Glob(filepath.Join(dir, place, version, pattern))
			if err != nil {
				return want, fmt.Errorf("list the firmware of %s: %w", dir, err)
			}
			for _, n := range names {
				want.Firmware = append(want.Firmware, filepath.Base(n))
			}
		}
	}
	slices.Sort(want.Firmware)
	want.Firmware = slices.Compact(want.Firmware)
	return want, nil
}

// compare notes what a client did not find, and files of another version that it found.
func (c *Client) compare(want Inventory, version string) {
	missing := func(what string, want, got []string) {
		var lost []string
		for _, w := range want {
			if !slices.Contains(got, w) {
				lost = append(lost, w)
			}
		}
		if len(lost) > 0 {
			names := strings.Join(lost[:min(len(lost), 3)], " ")
			if len(lost) > 3 {
				names += " ..."
			}
			c.problem("%d of %d %s are not found: %s", len(lost), len(want), what, names)
		}
	}
	missing("libraries", want.Libraries, c.Found.Libraries)
	missing("programs", want.Binaries, c.Found.Binaries)
	missing("firmware files", want.Firmware, c.Found.Firmware)
	for _, lib := range c.Found.Libraries {
		if strings.HasPrefix(lib, "libcuda.so.") || strings.HasPrefix(lib, "libnvidia-ml.so.") {
			if !strings.HasSuffix(lib, ".so."+version) {
				c.problem("%s is of another version than %s", lib, version)
			}
		}
	}
}
