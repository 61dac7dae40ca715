package inside

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// specLimit bounds the size of a CDI specification; those of the largest machines have some hundred
// kilobytes.
const specLimit = 8 << 20

// Spec is the part of a CDI specification that says what a container gets
// (https://github.com/cncf-tags/container-device-interface, SPEC.md).
type Spec struct {
	Version string   `json:"cdiVersion"`
	Kind    string   `json:"kind"`
	Devices []Device `json:"devices"`
	Edits   Edits    `json:"containerEdits"`
}

// Device is one named device of a specification.
type Device struct {
	Name  string `json:"name"`
	Edits Edits  `json:"containerEdits"`
}

// Edits are changes to a container.
type Edits struct {
	Env         []string `json:"env"`
	DeviceNodes []struct {
		Path     string `json:"path"`
		HostPath string `json:"hostPath"` // "" means path
	} `json:"deviceNodes"`
	Mounts []struct {
		HostPath      string `json:"hostPath"`
		ContainerPath string `json:"containerPath"`
	} `json:"mounts"`
	Hooks []struct {
		Name string   `json:"hookName"`
		Path string   `json:"path"`
		Args []string `json:"args"`
	} `json:"hooks"`
}

// ParseSpec reads a CDI specification in JSON.
func ParseSpec(data []byte) (Spec, error) {
	if len(data) > specLimit {
		return Spec{}, fmt.Errorf("read the CDI specification: it has %d bytes, the limit is %d", len(data), specLimit)
	}
	var s Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return Spec{}, fmt.Errorf("read the CDI specification: %w", err)
	}
	if s.Kind == "" || s.Version == "" {
		return Spec{}, fmt.Errorf("read the CDI specification: it names no version or no kind")
	}
	return s, nil
}

// Inventory sorts what the specification gives to a container that asks for all of its devices. version
// distinguishes driver libraries from other files.
func (s Spec) Inventory(version string) Inventory {
	var inv Inventory
	for _, d := range s.Devices {
		inv.add(d.Edits, version)
	}
	inv.add(s.Edits, version)
	for _, list := range []*[]string{&inv.Devices, &inv.Libraries, &inv.Links, &inv.Binaries, &inv.Firmware, &inv.Other, &inv.Hooks} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return inv
}

func (inv *Inventory) add(e Edits, version string) {
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
		default:
			inv.Other = append(inv.Other, m.ContainerPath)
		}
	}
	for _, h := range e.Hooks {
		if len(h.Args) > 1 {
			inv.Hooks = append(inv.Hooks, h.Args[1])
		}
		for i, a := range h.Args {
			if a == "--link" && i+1 < len(h.Args) {
				inv.Links = append(inv.Links, strings.ReplaceAll(h.Args[i+1], version, "VERSION"))
			}
		}
	}
}
