package report

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

const maxInformation = 64 << 10 // bytes; the kernel module writes some twenty lines

// gpuModel returns the model of a GPU. It uses the name from NVML; without one, the name that the kernel
// module has in PROC/driver/nvidia/gpus/ADDRESS/information (ADDRESS is the PCI address, "0000:05:00.0"),
// which exists for boards that were sold with a name; otherwise the PCI id ("10de:1eb8"). proc is "/proc"
// except in tests.
func gpuModel(name, proc, address, id string) string {
	if name != "" {
		return name
	}
	text := bounded.Head(filepath.Join(proc, "driver/nvidia/gpus", filepath.Base(address), "information"), maxInformation)
	return cmp.Or(parseModel(string(text)), id)
}

// parseModel returns the model in the line "Model: Tesla T4". The kernel module writes Unknown for a board
// that it has not initialised; the result is then "".
func parseModel(text string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "Model:"); ok {
			if value = strings.TrimSpace(value); value != "Unknown" && labelValue(value) != "" {
				return value
			}
			return ""
		}
	}
	return ""
}
