// Package page writes the page that shows the matrix to people: systems by drivers, what is built, what is
// missing, what cannot be built and why. It is one HTML file that needs nothing else: no network, no script,
// no font.
//
// It knows no matrix and no registry: the caller brings all facts. It escapes whatever it is given.
package page

import "time"

// State is what is known of the image of a cell.
type State string

// The states of a cell. A page shows them with a sign and a word, never by colour alone.
const (
	Built     State = "built"       // in the registry, and as the matrix has it as far as was looked at
	OutOfDate State = "out of date" // in the registry, made from something else than what would be taken now
	Missing   State = "missing"     // not in the registry
	Buildable State = "buildable"   // the registry was not asked
	Unknown   State = "unknown"     // the registry was asked and did not say
	Excluded  State = "excluded"    // a rule says that it cannot work
)

// Report is all that a page shows.
type Report struct {
	Title      string    // "" is "NVIDIA driver images"
	Generated  time.Time // shown in UTC
	Tool       string    // name and version of what made the page
	Matrix     string    // name of the matrix
	Repository string    // that was asked, "" when none was
	Notes      []string  // what readers should know, such as that a source could not be reached
	Systems    []System  // rows, in order
	Drivers    []Driver  // columns, in order
	Cells      []Cell    // of those systems and drivers, in any order; a pair without any is shown empty
}

// System is a row.
type System struct {
	ID      string
	Base    string   // reference of the base image
	Archs   []string // in the order in which they are shown
	Kernels []string // series
}

// Driver is a column. Drivers of one branch that follow each other share a heading.
type Driver struct {
	Version  string
	Branch   string   // "R535"
	Kind     string   // "lts", "" when not known
	End      string   // last month of support, "" when not known
	Over     bool     // support has ended
	Newest   string   // the newest release of the branch when it is newer than all that the matrix has, else ""
	Flavours []string // of the kernel modules
	Min, Max string   // kernel limits, "" for none
	Reason   string   // where Max comes from
	CUDA     string   // the highest release that it runs natively, "" when not known
	Runs     string   // how it runs the release of CUDA that was asked for, "" when none was
	Faults   []string // what is known of the release

	// Components are those for NVSwitch and NVLink that images get: "fabricmanager (amd64, arm64)". Unknown are
	// those that NVIDIA has, and whose checksum no public source has.
	Components, Unknown []string
}

// Cell is one image: a system, a driver and an architecture.
type Cell struct {
	System, Driver, Arch string
	State                State
	Why                  string    // of an excluded cell the rule, of one that is out of date or unknown the reason
	Tag                  string    // "535.261.03-debian12"
	Digest               string    // "sha256:..." of the manifest for the architecture, "" when not known
	Size                 int64     // compressed bytes, 0 when not known
	Kernels              []string  // series of the system that the modules compile on
	Companions           []string  // modules that are compiled with the driver's: "nvidia-fs 2.13.5"
	Omitted              string    // companions that the image lacks for a kernel, and why
	Patches              []string  // of the kernel sources: "open-pci-resize-resource (open)"
	Modules              []string  // kernel releases that the registry has images with compiled modules for
	Source               string    // "run", "redist" or "deb": where the driver comes from
	Created              time.Time // zero when not known
}
