package gpus

import (
	"fmt"
	"io"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// The labels that the rule gives to nodes.
const (
	LabelBranch     = "nvidia.com/driver.branch"   // "R580"; "none" if no driver of the matrix drives the GPUs
	LabelModules    = "nvidia.com/driver.modules"  // any, open, proprietary or none
	LabelGeneration = "nvidia.com/gpu.generation"  // "turing"; the oldest, if a node has several
	LabelConflict   = "nvidia.com/driver.conflict" // "true": no driver drives all GPUs of the node
	objectName      = "nvidia-driver-gpus"         // of the NodeFeatureRule
	perLine         = 16                           // numbers in a line
)

// classes are those of GPUs, as driver-entrypoint counts them: VGA and 3D controllers. Other display
// controllers (0380) are no GPUs for it.
const classes = `["0300", "0302"]`

// Write writes a NodeFeatureRule (nfd.k8s-sigs.io/v1alpha1) that labels nodes by their GPUs, for the drivers
// of a matrix. The same matrix gives the same bytes.
func Write(w io.Writer, m *matrix.Matrix) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, `# Labels of nodes by their GPUs, before they have a driver. Made by driver-build gpus --node-feature-rules.
# A later rule overrides the labels of an earlier one: with several kinds of GPUs, the lowest branch.
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata:
  name: %s
spec:
  rules:
`, objectName)
	writeDevices(b)
	all := groups(m, All())
	for _, g := range all {
		writeGroup(b, g)
	}
	writeConflicts(b, conflicts(m, all))
	_, err := io.WriteString(w, b.String())
	return err
}

// writeDevices writes the rule for the labels of PCI devices, which a configuration of Node Feature Discovery
// may make, or make without the vendor alone (deviceLabelFields): the chart wants the vendor's, and
// driver-build fleet the device's.
func writeDevices(b *strings.Builder) {
	fmt.Fprintf(b, `    - name: nvidia-driver.devices
      labels:
        feature.node.kubernetes.io/pci-%04x.present: "true"
      labelsTemplate: |
        {{ range .pci.device }}feature.node.kubernetes.io/pci-{{ .class }}_{{ .vendor }}_{{ .device }}.present=true
        {{ end }}
      matchFeatures:
        - feature: pci.device
          matchExpressions:
            vendor: {op: In, value: ["%04x"]}
            class: {op: In, value: %s}
`, Vendor, Vendor, classes)
}

func writeGroup(b *strings.Builder, g group) {
	fmt.Fprintf(b, "    - name: nvidia-driver.%s\n", g.variable)
	writeLabels(b, [][2]string{
		{LabelBranch, g.branch}, {LabelModules, g.modules}, {LabelGeneration, strings.ToLower(g.Generation)},
	})
	fmt.Fprintf(b, "      vars: {%s: \"true\"}\n", g.variable)
	operator, devices := "In", g.members
	if len(devices) == 0 {
		operator, devices = "NotIn", All()
	}
	fmt.Fprintf(b, `      matchFeatures:
        - feature: pci.device
          matchExpressions:
            vendor: {op: In, value: ["%04x"]}
            class: {op: In, value: %s}
            device:
              op: %s
              value: [`, Vendor, classes, operator)
	for i, d := range devices {
		if i%perLine == 0 {
			b.WriteString("\n                ")
		} else {
			b.WriteString(" ")
		}
		fmt.Fprintf(b, "\"%04x\"", d.Device)
		if i < len(devices)-1 {
			b.WriteString(",")
		}
	}
	b.WriteString("]\n")
}

// writeConflicts writes the rule for nodes with GPUs that have no driver in common.
func writeConflicts(b *strings.Builder, pairs [][2]group) {
	if len(pairs) == 0 {
		return
	}
	b.WriteString("    - name: nvidia-driver.conflict\n")
	writeLabels(b, [][2]string{{LabelBranch, ModulesNone}, {LabelModules, ModulesNone}, {LabelConflict, "true"}})
	b.WriteString("      matchAny:\n")
	for _, p := range pairs {
		fmt.Fprintf(b, `        - matchFeatures:
            - feature: rule.matched
              matchExpressions: {%s: {op: IsTrue}, %s: {op: IsTrue}}
`, p[0].variable, p[1].variable)
	}
}

func writeLabels(b *strings.Builder, labels [][2]string) {
	b.WriteString("      labels:\n")
	for _, l := range labels {
		fmt.Fprintf(b, "        %s: %q\n", l[0], l[1])
	}
}
