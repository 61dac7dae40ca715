package fabric

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel answers for the modules of the running kernel.
type Kernel struct {
	Loaded, Loadable func(name string) bool
	Packages         string // names of packages with modules, in parentheses; may be empty
}

// Host says how the node runs this program.
type Host struct {
	Managed bool  // this container is to manage the switches
	Err     error // why the machine is not known
}

// Check finds out whether the image can manage the machine's NVLink switches: without that every
// CUDA program fails with error 802, which is fatal. The fix is "" if all is well.
func (f Facts) Check(h Host, k Kernel) (text, fix string, fatal bool) {
	m := f.Machine
	switch {
	case h.Err != nil:
		return "whether there are NVLink switches is not known: " + h.Err.Error(), "Give the container the host's /sys.", false
	case !m.Managed():
		text, fix = m.unmanaged()
		return text, fix, false
	case !h.Managed:
		return m.String() + "; this container does not manage them (--fabric)", "", false
	}
	f = f.withDefaults()
	text, fix = f.fault()
	if fix != "" {
		return text, fix, true
	}
	if m.NVLink5() {
		text, fix = m.modules(k)
		return text, fix, false
	}
	return m.String() + "; the image has the fabric manager, which ends with this container", "", false
}

// unmanaged says that nothing has to be managed, which is a surprise with GPUs of a baseboard.
func (m Machine) unmanaged() (text, fix string) {
	gpus := "the GPUs " + strings.Join(m.Baseboard, ", ") + " need NVLink switches, "
	switch {
	case len(m.Baseboard) > 0 && len(m.Unreadable) > 0:
		return gpus + "which are found by the vital product data of a ConnectX function, and those cannot be read: " + strings.Join(
				m.Unreadable,
				"; ",
			),
			"See the kernel's log for the reason (lspci -vv shows the data, if they can be read). Without them no fabric manager is started."
	case len(m.Baseboard) > 0:
		return gpus + "and no ConnectX function that manages some is on the PCI bus",
			"On a node that has the whole baseboard, look for the ConnectX bridges on the PCI bus (15b3, SMDL=SW_MNG). In a virtual machine the host manages the switches; then this is as it should be."
	}
	return m.String(), ""
}

// modules checks the modules by which NVLink 5 switches are managed. A network driver that is
// missing may still come, in a container of its own.
func (m Machine) modules(k Kernel) (text, fix string) {
	var missing, loadable []string
	for _, name := range Modules() {
		switch {
		case k.Loaded(name):
		case k.Loadable(name):
			loadable = append(loadable, name)
		default:
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return m.String() + "; the kernel has no " + strings.Join(
				missing,
				", ",
			) + ", which the NVLink subnet manager needs",
			"Install the network driver on the host (DOCA-OFED), or the kernel's complete set of modules" + k.Packages + ". The node becomes ready when they are loaded."
	case len(loadable) > 0:
		return m.String() + "; the image has the programs, " + strings.Join(
			loadable,
			", ",
		) + " will be loaded", ""
	}
	return m.String() + "; the image has the programs, the kernel the modules", ""
}

// missing returns the files that the image lacks for the machine.
func (f Facts) missing() (names []string) {
	needs := []string{fmConfig, fmProgram}
	if f.Machine.NVLink5() {
		needs = append(needs, smConfig, smProgram)
	}
	return slices.DeleteFunc(needs, f.has)
}

// fault compares the image with what the machine's fabric needs; "" if nothing is wrong. It starts
// no program: whether the components are whole and of the driver's version, driver-build checks.
func (f Facts) fault() (text, fix string) {
	if missing := f.missing(); len(missing) > 0 {
		return fmt.Sprintf(
				"this node has %s, and the image lacks /%s: every CUDA program would fail with error 802",
				f.Machine,
				strings.Join(missing, ", /"),
			),
			"To manage the switches, use an image of a driver with the component fabricmanager (driver-build list shows it without a question mark), built without --no-fabric. " +
				"If a fabric manager of the driver's version runs on the node itself, set --fabric=external."
	}
	if _, err := f.configuration(); err != nil {
		return err.Error(), "Correct the fabric manager's settings: " + filepath.Join(
			f.Drivers,
			fmConfigName,
		) + ", NVFM_CONFIG_* and FABRIC_MODE."
	}
	return "", ""
}
