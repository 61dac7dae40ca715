package fleet

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// conditionType is the condition in which driver-entrypoint says which driver serves a node.
const conditionType = "NVIDIADriverReady"

var (
	// served is its message: "driver 580.178.04 (open modules) serves kernel 6.1.0-56-amd64, ...".
	served = regexp.MustCompile(`^driver ([0-9.]{1,32}) \(`)
	// moduleLine is a line of /proc/driver/nvidia/version, where the version follows two spaces.
	moduleLine = regexp.MustCompile(`^NVRM version: .*  ([0-9]{3,4}\.[0-9.]{1,16}) `)
)

// Sources of the version of a driver that are no labels.
const (
	fromCondition = "condition " + conditionType
	fromModule    = "/proc/driver/nvidia/version"
)

// Loaded is a driver that runs on a machine, and what says so.
type Loaded struct{ Version, Source string }

// Driver returns the version of the driver that serves the node, as the driver's own labels say, or
// those of GPU feature discovery; "" if neither does.
func (n *Node) Driver() string {
	return cmp.Or(n.Labels[labelDriver], n.Labels[labelDriverGFD], n.parts())
}

// Labels with the version of the driver: ours, and that of GPU feature discovery, whose older
// releases have its three numbers.
const (
	labelDriver    = "nvidia.com/driver.version.full"
	labelDriverGFD = "nvidia.com/cuda.driver-version.full"
	labelParts     = "nvidia.com/cuda.driver."
)

// parts returns the version of which labels have the numbers; "" without them.
func (n *Node) parts() string {
	version := n.Labels[labelParts+"major"] + "." + n.Labels[labelParts+"minor"]
	rev := n.Labels[labelParts+"rev"]
	if rev != "" {
		version += "." + rev
	}
	return strings.TrimPrefix(version, ".")
}

// Running returns the version of the driver that a node runs, ours or not, and what says so.
// Without a version it is "", and source is the text that is none, if there is one.
func (n *Node) Running() (version, source string) {
	host, _ := hostModules(n.Labels)
	for _, one := range []Loaded{
		{n.Labels[labelDriver], labelDriver},
		{n.Labels[labelDriverGFD], labelDriverGFD},
		{n.parts(), labelParts + "major, minor, rev"},
		n.Loaded,
		{host, "label of the system's modules"},
	} {
		if one.Version == "" {
			continue
		}
		if !matrix.HasForm("version", one.Version) {
			source = cmp.Or(source, one.Source+"="+one.Version+" is no driver version")
			continue
		}
		return one.Version, one.Source
	}
	return "", source
}
