package gpus

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/driver-container/driver-container/images/matrix"
)

// perLine is how many device numbers a line of the rule has.
const perLine = 16

// nodeFeatureRule is the rule. Its classes are those of GPUs, as driver-entrypoint counts them: VGA
// and 3D controllers; other display controllers (0380) are no GPUs for it. Its first rule makes the
// labels of PCI devices, which a configuration of Node Feature Discovery may make, or make without
// the vendor alone (deviceLabelFields): the chart wants the vendor's, and driver-build fleet the
// device's.
var nodeFeatureRule = template.Must(template.New("").Parse(
	`# Labels of nodes by their GPUs, before they have a driver. Made by driver-build gpus --node-feature-rules.
# A later rule overrides the labels of an earlier one: with several kinds of GPUs, what fits all.
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata:
  name: nvidia-driver-gpus
spec:
  rules:
    - name: nvidia-driver.devices
      labels:
        feature.node.kubernetes.io/pci-10de.present: "true"
      labelsTemplate: |
        {{ "{{ range .pci.device }}" }}feature.node.kubernetes.io/pci-{{ "{{ .class }}_{{ .vendor }}_{{ .device }}" }}.present=true
        {{ "{{ end }}" }}
      matchFeatures:
        - feature: pci.device
          matchExpressions:
            vendor: {op: In, value: ["10de"]}
            class: {op: In, value: ["0300", "0302"]}
{{- range .Groups }}
    - name: nvidia-driver.{{ .Variable }}
      labels:
        nvidia.com/gpu.generation: "{{ .Word }}"
        nvidia.com/driver.modules: "{{ .Modules }}"
      vars:
{{- range .Variables }}
        {{ . }}: "true"
{{- end }}
      matchFeatures:
        - feature: pci.device
          matchExpressions:
            vendor: {op: In, value: ["10de"]}
            class: {op: In, value: ["0300", "0302"]}
            device:
              op: {{ if .Members }}In{{ else }}NotIn{{ end }}
              value: [{{ .Numbers }}]
{{- end }}
{{- range .Flavours }}
    - name: nvidia-driver.modules-{{ . }}
      labels:
        nvidia.com/driver.modules: "{{ . }}"
      matchFeatures:
        - feature: rule.matched
          matchExpressions: {{ "{" }}modules_{{ . }}: {op: IsTrue}}
{{- end }}
{{- range .Branches }}
    - name: nvidia-driver.last-{{ . }}
      labels:
        nvidia.com/driver.last-branch: "{{ . }}"
      matchFeatures:
        - feature: rule.matched
          matchExpressions: {{ "{" }}last_{{ . }}: {op: IsTrue}}
{{- end }}
    - name: nvidia-driver.none
      labels:
        nvidia.com/driver.last-branch: "none"
      matchFeatures:
        - feature: rule.matched
          matchExpressions: {last_none: {op: IsTrue}, driven: {op: DoesNotExist}}
{{- if .Conflicts }}
    - name: nvidia-driver.conflict
      labels:
        nvidia.com/driver.last-branch: "none"
        nvidia.com/driver.modules: "none"
        nvidia.com/driver.conflict: "true"
      matchAny:
{{- end }}
{{- range .Conflicts }}
        - matchFeatures:
            - feature: rule.matched
              matchExpressions: {{ "{" }}{{ (index . 0).Variable }}: {op: IsTrue}, {{ (index . 1).Variable }}: {op: IsTrue}}
{{- end }}
`),
)

// Write writes a NodeFeatureRule (nfd.k8s-sigs.io/v1alpha1) that labels nodes by their GPUs. It
// follows from the list of GPUs alone: the same program gives the same bytes, whatever drivers
// there are.
func Write(w io.Writer) error { return writeRules(w, All()) }

func writeRules(w io.Writer, list []GPU) error {
	all := groups(list, GPU.facts)
	return nodeFeatureRule.Execute(w, map[string]any{
		"Groups": all, "Conflicts": conflicts(all), "Branches": lastBranches(all),
		"Flavours": []string{matrix.Open, matrix.Proprietary},
	})
}

// lastBranches returns the last branches of GPUs that a matrix can have a driver for, the newest
// first: a later rule overrides an earlier one, so the oldest branch counts.
func lastBranches(all []group) (branches []string) {
	for _, g := range all {
		if g.Driven() && g.LastBranch != "" && !slices.Contains(branches, g.LastBranch) {
			branches = append(branches, g.LastBranch)
		}
	}
	slices.SortFunc(branches, func(a, b string) int { return matrix.Major(b) - matrix.Major(a) })
	return branches
}

// Driven reports whether a matrix can have a driver for the group.
func (g group) Driven() bool { return g.Last() != ModulesNone }

// Variables are what later rules ask of the group: its name, and what its GPUs do not share with
// all others.
func (g group) Variables() []string {
	names := []string{g.Variable}
	if g.Driven() {
		names = append(names, "driven")
	}
	if len(g.Flavours) == 1 && g.Driven() {
		names = append(names, "modules_"+g.Flavours[0])
	}
	if last := g.Last(); last != "" {
		names = append(names, "last_"+last)
	}
	return names
}

// Word is the name of the generation as a label has it.
func (g group) Word() string { return strings.ToLower(g.Generation) }

// Numbers are the device numbers of the group, or of the whole list for the GPUs that are not in
// it.
func (g group) Numbers() string {
	devices := g.Members
	if len(devices) == 0 {
		devices = All()
	}
	var lines []string
	for line := range slices.Chunk(devices, perLine) {
		words := make([]string, len(line))
		for i, d := range line {
			words[i] = fmt.Sprintf(`"%04x"`, d.Device)
		}
		lines = append(lines, "\n                "+strings.Join(words, ", "))
	}
	return strings.Join(lines, ",")
}
