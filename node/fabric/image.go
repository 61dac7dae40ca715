package fabric

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	componentsFile = "usr/share/nvidia-driver/components.json" // driver-build writes it: versions by name
	maxComponents  = 64 << 10
	managerName    = "fabricmanager"
)

const useFabricImage = "use an image with the driver's components (components of the driver in matrix.yaml, built without --no-fabric)"

// missing returns the files that the image lacks for the machine.
func (f Facts) missing() (names []string) {
	needs := []string{fmConfig, fmProgram}
	if f.Machine.NVLink5() {
		needs = append(needs, smConfig, smProgram)
	}
	return slices.DeleteFunc(needs, f.has)
}

// fault compares the image with what the machine's fabric needs, and with the version of the driver. It starts
// no program. It returns a Finding that is Fine if nothing is wrong.
func (f Facts) fault(driver string) Finding {
	if missing := f.missing(); len(missing) > 0 {
		return Finding{Fatal, fmt.Sprintf("this node has %s, and the image lacks /%s: every CUDA program would fail with error 802", f.Machine, strings.Join(missing, ", /")),
			"To manage the switches, " + useFabricImage + ". If a fabric manager of the driver's version runs on the node itself, set --fabric=external."}
	}
	text, err := f.configuration()
	if err != nil {
		return Finding{Fatal, err.Error(), "Correct the fabric manager's settings: " + filepath.Join(f.Drivers, fmConfigName) + ", NVFM_CONFIG_* and FABRIC_MODE."}
	}
	if dir := f.topologies(text); !f.Machine.NVLink5() && dir != "" {
		return Finding{Fatal, dir + " has no topology: the fabric manager does not start without that of its machine",
			"Use an image with the whole component fabricmanager, or correct TOPOLOGY_FILE_PATH."}
	}
	listed := map[string]string{}
	list, err := bounded.File(f.path(componentsFile), maxComponents)
	if err == nil {
		err = json.Unmarshal(list, &listed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an image of another maker has no list
		return Finding{Doubtful, fmt.Sprintf("/%s is no list of versions: %v", componentsFile, err), "Build the image again."}
	}
	if v := listed[managerName]; v != "" && v != driver {
		return Finding{Fatal, fmt.Sprintf("the fabric manager of the image is of version %s, its driver of version %s: they work together only in the same version", v, driver),
			fmt.Sprintf("Use the component fabricmanager %s.", driver)}
	}
	return Finding{}
}

// topologies returns the folder of topologies if it has none.
func (f Facts) topologies(config []byte) (empty string) {
	dir := value(config, "TOPOLOGY_FILE_PATH")
	if dir == "" {
		dir = "/" + topologyDir
	}
	entries, _ := os.ReadDir(f.path(dir)) //nolint:errcheck // what cannot be read, the fabric manager does not read either
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && filepath.Ext(e.Name()) != ".cfg" }) {
		return ""
	}
	return dir
}
