package devices

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxMinor is 20 bits, the largest minor number that all of user space supports. The driver's
// largest is far smaller (NV_CAP_DRV_MINOR_COUNT is 8192).
const maxMinor = 1<<20 - 1

// parseMajors parses /proc/devices and returns the majors of character devices by name. The first
// line of a name counts.
func parseMajors(text []byte) map[string]uint32 {
	majors := map[string]uint32{}
	inside := false
	for line := range lines(text) {
		if strings.HasSuffix(line, ":") {
			inside = line == "Character devices:"
			continue
		}
		number, name, ok := strings.Cut(line, " ")
		if !inside || !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 12) // majors have 12 bits
		if err != nil {
			continue
		}
		if _, have := majors[name]; !have {
			majors[name] = uint32(n)
		}
	}
	return majors
}

// parseFields parses the "Name: value" lines of NVIDIA's files in procfs. It ignores spaces and
// tabs around both.
func parseFields(text []byte) map[string]string {
	fields := map[string]string{}
	for line := range lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return fields
}

func lines(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range bytes.Lines(text) {
			if s := strings.TrimSpace(string(line)); s != "" && !yield(s) {
				return
			}
		}
	}
}

// parseInformation parses /proc/driver/nvidia/gpus/<address>/information. The driver refuses to
// open a GPU that its parameter NVreg_ExcludedGpus excludes.
func parseInformation(text []byte) (minor uint32, excluded bool, err error) {
	fields := parseFields(text)
	minor, err = parseMinor(fields["Device Minor"])
	if err != nil {
		return 0, false, fmt.Errorf("its Device Minor: %w", err)
	}
	// its name until release 450
	return minor, fields["GPU Excluded"] == "Yes" || fields["GPU Blacklisted"] == "Yes", nil
}

// capability is what a file below /proc/driver/nvidia/capabilities says about the node that grants
// it.
type capability struct {
	minor  uint32
	mode   uint32
	modify bool // false: the administrator manages such nodes
}

func parseCapability(text []byte) (capability, error) {
	fields := parseFields(text)
	minor, err := parseMinor(fields["DeviceFileMinor"])
	if err != nil {
		return capability{}, fmt.Errorf("its DeviceFileMinor: %w", err)
	}
	mode, err := strconv.ParseUint(fields["DeviceFileMode"], 10, 32)
	if err != nil {
		return capability{}, fmt.Errorf("its DeviceFileMode: %w", err)
	}
	return capability{minor, uint32(mode) & 0o777, fields["DeviceFileModify"] != "0"}, nil
}

func parseMinor(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if n > maxMinor {
		return 0, fmt.Errorf("%d is too large", n)
	}
	return uint32(n), nil
}

// owner is the owner and the mode of device nodes, from the driver's parameters.
type owner struct {
	uid, gid int
	mode     uint32
	modify   bool
}

// parseOwner reads the fields of /proc/driver/nvidia/params (or .../permissions). A value that is
// missing or not valid is the driver's default.
func parseOwner(fields map[string]string) owner {
	o := owner{mode: 0o666, modify: true}
	if n, err := strconv.ParseUint(fields["DeviceFileMode"], 10, 32); err == nil {
		o.mode = uint32(n) & 0o777
	}
	for name, to := range map[string]*int{"DeviceFileUID": &o.uid, "DeviceFileGID": &o.gid} {
		if n, err := strconv.ParseUint(fields[name], 10, 31); err == nil {
			*to = int(n)
		}
	}
	o.modify = fields["ModifyDeviceFiles"] != "0"
	return o
}

// Minors returns the minor numbers of the GPUs that the driver has taken, by PCI address, without
// GPUs that an administrator excluded. Without a loaded driver it is empty.
func (n Nodes) Minors() (map[string]uint32, error) {
	files, err := filepath.Glob(filepath.Join(n.Proc, "driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil, fmt.Errorf("ask the driver for its GPUs: %w", err)
	}
	minors := map[string]uint32{}
	for _, file := range files {
		text, err := bounded.File(file, maxText)
		if errors.Is(err, fs.ErrNotExist) { // the GPU has gone
			continue
		}
		minor, excluded, wrong := parseInformation(text)
		err = cmp.Or(err, wrong)
		if err != nil {
			return nil, fmt.Errorf("ask the driver for its GPUs: %s: %w", file, err)
		}
		if !excluded {
			minors[filepath.Base(filepath.Dir(file))] = minor
		}
	}
	return minors, nil
}
