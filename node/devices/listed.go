package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// ListedGPU is a GPU as the driver shows it in procfs, without a query through a device file. The driver has
// taken the device; this does not say whether the device initialises, since that happens when a program opens
// it.
type ListedGPU struct {
	Address  string // name of the driver's folder: "0000:05:00.0"
	Model    string // "Tesla T4"; "" until the GPU was initialised for the first time
	UUID     string // "GPU-8a3c..."; "" until then, too
	Excluded bool   // by the administrator (NVreg_ExcludedGpus)
}

const (
	maxListed = 1024 // far more than any machine has
	maxWord   = 128  // bytes of a name
)

// Listed returns the GPUs that the driver has taken, from /proc/driver/nvidia/gpus/<address>/information,
// by address. Without a loaded driver there are none.
func (n Nodes) Listed() ([]ListedGPU, error) {
	dir := filepath.Join(n.Proc, "driver/nvidia/gpus")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("which GPUs the driver has taken: %w", err)
	}
	var found []ListedGPU
	for _, e := range entries[:min(len(entries), maxListed)] {
		if !address().MatchString(e.Name()) {
			continue
		}
		text, err := bounded.File(filepath.Join(dir, e.Name(), "information"), maxText)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("which GPUs the driver has taken: %w", err)
		}
		found = append(found, parseListed(e.Name(), text))
	}
	return found, nil
}

// parseListed parses the driver's information about a GPU. The driver writes "Unknown" or question marks for
// values that it does not know yet.
func parseListed(addr string, text []byte) ListedGPU {
	fields := parseFields(text)
	known := func(name string) string {
		value := strings.ToValidUTF8(fields[name], "")
		if value == "Unknown" || strings.Contains(value, "?") || len(value) > maxWord {
			return ""
		}
		return value
	}
	return ListedGPU{
		Address: addr, Model: known("Model"), UUID: known("GPU UUID"),
		Excluded: fields["GPU Excluded"] == "Yes" || fields["GPU Blacklisted"] == "Yes", // the latter until release 450
	}
}
