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
	componentsFile = "usr/share/nvidia-driver/components.json" // driver-build writes it
	maxComponents  = 64 << 10
	maxProgram     = 256 << 20 // the fabric manager of 595 has 40 MB
	managerName    = "fabricmanager"
)

const useFabricImage = "without them every CUDA program fails with error 802; use an image with the driver's components " +
	"(components of the driver in matrix.yaml, built without --no-fabric)"

// Fault is something about the image that its fabric manager would fail with. Text says what, Fix what to do.
type Fault struct {
	Text, Fix string
	Doubt     bool // it may work all the same
}

// missing returns the files that the image lacks for the machine.
func (f Facts) missing() (names []string) {
	needs := []string{fmConfig, fmProgram}
	if f.Machine.NVLink5() {
		needs = append(needs, smConfig, smProgram)
	}
	for _, name := range needs {
		if !f.has(name) {
			names = append(names, name)
		}
	}
	return names
}

// Faults compares the image with what the machine's fabric needs, and with the version of the driver. It
// starts no program.
func (f Facts) Faults(driver string) []Fault {
	f = f.withDefaults()
	if !f.Machine.Managed() {
		return nil
	}
	if missing := f.missing(); len(missing) > 0 {
		return []Fault{{
			Text: fmt.Sprintf("this node has %s, and the image lacks /%s: every CUDA program would fail with error 802", f.Machine, strings.Join(missing, ", /")),
			Fix: "Use an image with the driver's components (components of the driver in matrix.yaml, built without --no-fabric). " +
				"If a fabric manager of the driver's version runs on the node itself, set --fabric=external.",
		}}
	}
	text, err := f.configuration()
	if err != nil {
		return []Fault{{Text: err.Error(), Fix: "Correct the fabric manager's settings: " + filepath.Join(f.Drivers, fmConfigName) + ", NVFM_CONFIG_* and FABRIC_MODE."}}
	}
	var faults []Fault
	if !f.Machine.NVLink5() {
		faults = append(faults, f.topologies(text)...)
	}
	return append(faults, f.version(driver)...)
}

// topologies requires that the folder of topologies has one: the fabric manager ends without that of its
// machine.
func (f Facts) topologies(config []byte) []Fault {
	dir := value(config, "TOPOLOGY_FILE_PATH")
	if dir == "" {
		dir = "/" + topologyDir
	}
	entries, err := os.ReadDir(f.path(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Fault{{Text: fmt.Sprintf("the topologies of the fabric manager cannot be read: %v", err), Fix: "Pull the image again, or build it again."}}
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() && filepath.Ext(e.Name()) != ".cfg" }) {
		return nil
	}
	return []Fault{{
		Text: fmt.Sprintf("%s has no topology: the fabric manager does not start without that of its machine", dir),
		Fix:  "Use an image with the whole component fabricmanager, or correct TOPOLOGY_FILE_PATH.",
	}}
}

// version compares the fabric manager with the driver: only the same version works.
func (f Facts) version(driver string) []Fault {
	fix := fmt.Sprintf("Use the component fabricmanager %s. Do not put a fabric manager into the image by hand; driver-build verify compares all of them.", driver)
	listed, err := f.listed()
	if err != nil {
		return []Fault{{Text: fmt.Sprintf("/%s: %v", componentsFile, err), Fix: "Build the image again.", Doubt: true}}
	}
	if v := listed[managerName]; v != "" && v != driver {
		return []Fault{{Text: fmt.Sprintf("the fabric manager of the image is of version %s, its driver of version %s: they work together only in the same version", v, driver), Fix: fix}}
	}
	switch same, err := holds(f.path(fmProgram), driver); {
	case err != nil:
		return []Fault{{Text: fmt.Sprintf("the version of /%s is not known: %v", fmProgram, err), Fix: "Build the image again.", Doubt: true}}
	case !same:
		return []Fault{{Text: fmt.Sprintf("/%s does not hold the version of the driver, %s: a fabric manager of another version does not work with it", fmProgram, driver),
			Fix: fix, Doubt: listed[managerName] == driver}} // the archive was of this version: perhaps it is written in another way
	}
	return nil
}

// listed returns the versions of the components, by name, that driver-build put into the image.
func (f Facts) listed() (map[string]string, error) {
	text, err := bounded.File(f.path(componentsFile), maxComponents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // an image of another maker has no list
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("it is no list of versions: %w", err)
	}
	return all, nil
}

// holds reports whether a file of at most maxProgram bytes holds a text.
func holds(path, text string) (bool, error) {
	file, err := bounded.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || st.Size() > maxProgram {
		return false, errors.Join(err, &bounded.TooLargeError{Limit: maxProgram})
	}
	return bounded.Contains(file, text, maxProgram)
}
