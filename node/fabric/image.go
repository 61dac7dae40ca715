package fabric

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// missing returns the files that the image lacks for the machine.
func (f Facts) missing() (names []string) {
	needs := []string{fmConfig, fmProgram}
	if f.Machine.NVLink5() {
		needs = append(needs, smConfig, smProgram)
	}
	return slices.DeleteFunc(needs, f.has)
}

// fault compares the image with what the machine's fabric needs; "" if nothing is wrong. It starts no program: whether the components are
// whole and of the driver's version, driver-build checks.
func (f Facts) fault() (text, fix string) {
	if missing := f.missing(); len(missing) > 0 {
		return fmt.Sprintf("this node has %s, and the image lacks /%s: every CUDA program would fail with error 802", f.Machine, strings.Join(missing, ", /")),
			"To manage the switches, use an image with the driver's components (components of the driver in matrix.yaml, built without --no-fabric). " +
				"If a fabric manager of the driver's version runs on the node itself, set --fabric=external."
	}
	if _, err := f.configuration(); err != nil {
		return err.Error(), "Correct the fabric manager's settings: " + filepath.Join(f.Drivers, fmConfigName) + ", NVFM_CONFIG_* and FABRIC_MODE."
	}
	return "", ""
}
