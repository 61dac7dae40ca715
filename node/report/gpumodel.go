package report

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

const maxInformation = 64 << 10 // bytes; the kernel module writes some twenty lines

// gpuModel names a GPU by its PCI address ("0000:05:00.0"): as NVML did (name), else as the kernel module
// does in PROC/driver/nvidia/gpus/ADDRESS/information, which it knows of the boards that were sold with a
// name, else by its PCI id ("10de:1eb8"). proc is "/proc" except in tests.
func gpuModel(name, proc, address, id string) string {
	if name != "" {
		return name
	}
	f, err := os.Open(filepath.Join(proc, "driver/nvidia/gpus", filepath.Base(address), "information"))
	if err != nil {
		return id
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxInformation))
	if model := parseModel(string(text)); err == nil && model != "" {
		return model
	}
	return id
}

// parseModel finds the line "Model: Tesla T4". Unknown is the module's word for a board that it has not
// initialised.
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
