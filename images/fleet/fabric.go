package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// switchLabel is a label of node feature discovery about NVSwitches: NVIDIA's devices of class 0680
// (bridge, other), or those with the numbers of the A100's and of the H100's where the label has no
// class.
var switchLabel = regexp.MustCompile(
	`^` + nfd + `pci-(?:0680_10de(?:_.*)?|10de_(?:1af1|22a3)(?:_.*)?)\.present$`,
)

// switchInstances are types of clouds' machines with a whole baseboard of GPUs: AWS
// (docs.aws.amazon.com/ec2/latest/instancetypes/ac.html), Google
// (docs.cloud.google.com/compute/docs/gpus), Azure
// (learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated) and Oracle
// (docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm).
var switchInstances = regexp.MustCompile(
	`^(p4de?\.24xlarge|p5(e|en)?\.48xlarge|p6-b[0-9]+\.48xlarge` +
		`|a2-(highgpu-8g|megagpu-16g|ultragpu-8g)|a3-(highgpu|megagpu|edgegpu|ultragpu)-8g|a4-highgpu-8g` +
		`|Standard_ND96a(m)?sr_(A100_)?v4|Standard_ND[0-9]+isrf?_(NDR_)?(H100|H200)_v[0-9]+` +
		`|BM\.GPU\.(GM?4|A100-v2|H100|H200|B200|B300).*)$`,
)

// instance returns the type of a cloud's machine; "" if no label has it.
func instance(labels map[string]string) string {
	for _, key := range instanceTypes {
		if labels[key] != "" {
			return labels[key]
		}
	}
	return ""
}

// hasSwitches reports whether labels say that NVLink switches join a node's GPUs.
func hasSwitches(labels map[string]string) bool {
	for key, value := range labels {
		if value == "true" && switchLabel.MatchString(key) {
			return true
		}
	}
	return switchInstances.MatchString(instance(labels))
}

// lacks returns the components that a machine needs and that the matrix does not have for a driver.
func (m *machine) lacks(t matrix.Target) []string {
	return t.Driver.Components.Lacks(t.Arch, m.need.components)
}

// hits reports whether an advisory is known to be about a machine. One that does not say in data
// which nodes it is about, is not.
func (m *machine) hits(a matrix.Advisory) bool {
	return a.Kind == driverinfo.KnownBad && a.Nodes != nil &&
		a.Nodes.Have(instance(m.Labels), m.GPUs.Devices)
}

// drawbacks is higher for a driver that serves a machine worse: above all one without the
// components that it needs, then one that is known to be bad there.
func (m *machine) drawbacks(t matrix.Target) int {
	count := 0
	if slices.ContainsFunc(t.Driver.Advisories, m.hits) {
		count++
	}
	if len(m.lacks(t)) > 0 {
		count += 2
	}
	return count
}

// ranked are targets for a machine, the best first.
func (m *machine) ranked(all []matrix.Target) []matrix.Target {
	return slices.SortedStableFunc(
		slices.Values(all),
		func(a, b matrix.Target) int { return m.drawbacks(a) - m.drawbacks(b) },
	)
}

const consequence = "with NVLink switches every CUDA program fails with error 802"

// refuseFabric refuses a machine whose best driver lacks components.
func (m *machine) refuseFabric(t matrix.Target) {
	m.refuse(
		FabricUnknown,
		"its GPU (%s) can be joined by NVLink switches, and no driver of the matrix that fits it and its kernel has %s: %s. "+
			"Complete driver %s (driver-build matrix add-driver), or name it with --driver",
		m.need,
		strings.Join(m.lacks(t), " and "),
		consequence,
		t.Driver.Version,
	)
}

// unnamed says what may go wrong on a machine whose GPU nothing names; "" if nothing may.
func (m *machine) unnamed() string {
	fabric := m.target.Driver.Components.Lacks(m.target.Arch, []string{matrix.FabricManager})
	if len(m.need.text) > 0 || m.GPUs.Switches || m.GPUs.VGPU || len(fabric) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"nothing says which GPU it has, and driver %s comes without the fabric manager: %s "+
			"(docs/fleet.md#label-nodes-before-they-have-a-driver)",
		m.target.Driver.Version,
		consequence,
	)
}

// noteHits notes which advisories are about a machine that gets their driver.
func (r *Recommendation) noteHits(all machines) {
	for _, m := range all {
		for _, a := range m.target.Driver.Advisories {
			if m.hits(a) {
				r.hit[m.target.Driver.Version+" "+a.ID] = true
			}
		}
	}
}

// Targets are what the images are made of. Their drivers have the advisories that are about all
// nodes, or about one that gets the driver.
func (r *Recommendation) Targets() (all []matrix.Target) {
	for i := range r.Images {
		for _, t := range r.Images[i].targets {
			other := func(a matrix.Advisory) bool { return a.Nodes != nil && !r.hit[t.Driver.Version+" "+a.ID] }
			t.Driver.Advisories = slices.DeleteFunc(slices.Clone(t.Driver.Advisories), other)
			all = append(all, t)
		}
	}
	return all
}
