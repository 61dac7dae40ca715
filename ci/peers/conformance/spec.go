package conformance

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// edits is the part of a CDI specification that says what a container gets
// (https://github.com/cncf-tags/container-device-interface, SPEC.md).
type edits struct {
	DeviceNodes []struct {
		Path string `json:"path"`
	} `json:"deviceNodes"`
	Mounts []struct {
		ContainerPath string `json:"containerPath"`
	} `json:"mounts"`
	Hooks []struct {
		Args []string `json:"args"`
	} `json:"hooks"`
}

// inventory sorts what a CDI specification in JSON gives to a container that asks for all of its
// devices.
func inventory(spec []byte) (Inventory, error) {
	var s struct {
		Devices []struct {
			Edits edits `json:"containerEdits"`
		} `json:"devices"`
		Edits edits `json:"containerEdits"`
	}
	var inv Inventory
	if err := json.Unmarshal(spec, &s); err != nil {
		return inv, fmt.Errorf("read the CDI specification: %w", err)
	}
	for _, d := range s.Devices {
		inv.add(d.Edits)
	}
	inv.add(s.Edits)
	for _, list := range []*[]string{&inv.Devices, &inv.Libraries, &inv.Links, &inv.Binaries, &inv.Firmware, &inv.Hooks} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return inv, nil
}

func (inv *Inventory) add(e edits) {
	for _, d := range e.DeviceNodes {
		inv.Devices = append(inv.Devices, d.Path)
	}
	for _, m := range e.Mounts {
		dir, base := path.Split(m.ContainerPath)
		switch {
		case strings.Contains(base, ".so."):
			inv.Libraries = append(inv.Libraries, base)
		case strings.Contains(dir, "/firmware/"):
			inv.Firmware = append(inv.Firmware, base)
		case strings.HasSuffix(dir, "/bin/") || strings.HasSuffix(dir, "/sbin/"):
			inv.Binaries = append(inv.Binaries, base)
		}
	}
	for _, h := range e.Hooks {
		if len(h.Args) > 1 {
			inv.Hooks = append(inv.Hooks, h.Args[1])
		}
		for i, a := range h.Args {
			if a == "--link" && i+1 < len(h.Args) {
				inv.Links = append(inv.Links, h.Args[i+1])
			}
		}
	}
}

// libraryDirs are the folders of a driver root that every consumer searches: nvidia-ctk, the
// validator, the device plugin and the DRA driver have these in common.
var libraryDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	"lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
}

// expect returns what a complete and correct client finds in the world's driver root, which has
// that version, from the files of the root: libraries, the programs that the toolkit gives to
// containers, firmware where consumers look and where the image keeps it. A file that is only in
// the second place is a mistake.
func expect(version string) Inventory {
	want := Inventory{Libraries: []string{"libcuda.so." + version, "libnvidia-ml.so." + version}, Binaries: []string{"nvidia-smi"}}
	add := func(list *[]string, patterns ...string) {
		for _, pattern := range patterns {
			found, _ := filepath.Glob(filepath.Join(driverRoot, pattern)) //nolint:errcheck // the patterns are valid
			for _, path := range found {
				*list = append(*list, filepath.Base(path))
			}
		}
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for _, dir := range libraryDirs {
		add(&want.Libraries, dir+"/*.so."+version, dir+"/vdpau/*.so."+version)
	}
	add(&want.Binaries, "usr/bin/nvidia-debugdump", "usr/bin/nvidia-persistenced", "usr/bin/nvidia-cuda-mps-*", "usr/bin/nvidia-imex*")
	for _, dir := range []string{"lib/firmware/nvidia/", "usr/share/nvidia-driver/firmware/nvidia/"} {
		add(&want.Firmware, dir+version+"/gsp*.bin", dir+version+"/ucodes*.bin")
	}
	return want
}

// compare notes what a client did not find, and libraries of another version that it found.
func (c *Client) compare(version string) {
	want := expect(version)
	missing := func(what string, want, got []string) {
		lost := slices.DeleteFunc(
			slices.Clone(want),
			func(name string) bool { return slices.Contains(got, name) },
		)
		if len(lost) > 0 {
			c.problem(
				"%d of %d %s are not found: %s",
				len(lost),
				len(want),
				what,
				strings.Join(lost[:min(len(lost), 3)], " "),
			)
		}
	}
	missing("libraries", want.Libraries, c.Found.Libraries)
	missing("programs", want.Binaries, c.Found.Binaries)
	missing("firmware files", want.Firmware, c.Found.Firmware)
	for _, lib := range c.Found.Libraries {
		for _, name := range []string{"libcuda.so.", "libnvidia-ml.so."} {
			if strings.HasPrefix(lib, name) && lib != name+version {
				c.problem("%s is of another version than %s", lib, version)
			}
		}
	}
	if len(c.Found.Devices) == 0 {
		c.problem("no device node")
	}
}
