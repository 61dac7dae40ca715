package main

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// chartValue is one value of the chart: its path ("image.tag"), its default as one line of YAML ("" for a group),
// and the text of its comment.
type chartValue struct{ Path, Default, Text string }

// whole are values that get one row although they are mappings: keys that Kubernetes defines are not
// explained one by one.
var whole = []string{"resources", "evict.resources", "dashboard.labels"}

// chartValues returns the values in the order of the file. It is an error if a value has no comment.
func chartValues(values []byte) ([]chartValue, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, fmt.Errorf("read the chart's values.yaml: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read the chart's values.yaml: it is no mapping")
	}
	// The parser attaches a comment at the head of the file to the document, and comments below a group to the
	// group's first key or to the group itself. So read comments from the lines.
	return walk(doc.Content[0], "", strings.Split(string(values), "\n"))
}

func walk(mapping *yaml.Node, prefix string, lines []string) ([]chartValue, error) {
	var rows []chartValue
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		row := chartValue{Path: prefix + key.Value, Text: comment(lines, key.Line)}
		if row.Text == "" {
			return nil, fmt.Errorf("values.yaml:%d: %s has no comment above it", key.Line, row.Path)
		}
		group := value.Kind == yaml.MappingNode && len(value.Content) > 0 && !slices.Contains(whole, row.Path)
		if !group {
			text, err := oneLine(value)
			if err != nil {
				return nil, fmt.Errorf("values.yaml:%d: %s: %w", key.Line, row.Path, err)
			}
			row.Default = text
		}
		rows = append(rows, row)
		if group {
			below, err := walk(value, row.Path+".", lines)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
		}
	}
	return rows, nil
}

// tasks returns the title of each group of values, by the first value of the group.
func tasks(values []byte) map[string]string {
	found, title := map[string]string{}, ""
	for line := range strings.Lines(string(values)) {
		if text, ok := strings.CutPrefix(line, "## "); ok {
			title = strings.TrimSpace(text)
		}
		if name, _, ok := strings.Cut(line, ":"); ok && title != "" && !strings.HasPrefix(line, "#") {
			found[name], title = title, ""
		}
	}
	return found
}

// comment joins the comment lines above a line; line counts from 1.
func comment(lines []string, line int) string {
	var found []string
	for i := line - 2; i >= 0; i-- {
		text, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "#")
		if !ok {
			break
		}
		found = append(found, strings.TrimSpace(text))
	}
	slices.Reverse(found)
	return strings.Join(found, " ")
}

// oneLine returns a value in flow style.
func oneLine(value *yaml.Node) (string, error) {
	flow(value)
	text, err := yaml.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write its default: %w", err)
	}
	return strings.Join(strings.Fields(string(text)), " "), nil
}

func flow(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		flow(c)
	}
}

const intro = `# nvidia-driver

NVIDIA's driver on every GPU node of a cluster, from images of driver-build. Helm 3.8 or newer, Kubernetes 1.23 or newer
(1.29 for eviction). [docs/operate.md](../../docs/operate.md) says how to install, upgrade and use it with the device plugin, the
container toolkit and the GPU Operator. helm template makes plain
manifests. After this page you know every value; a look-up takes a minute.

    kubectl create namespace nvidia-driver
    kubectl label namespace nvidia-driver pod-security.kubernetes.io/enforce=privileged
    helm install nvidia-driver deploy/chart -n nvidia-driver \
      --set image.repository=registry.example.com/gpu/driver --set image.tag=580.178.04-ubuntu22.04 --set acceptLicense=true

## Values

go run ./ci/generate makes these tables from the comments in values.yaml. values.schema.json refuses all other values, except the names of
NVIDIA's charts that mean the same or for which the chart says what to use instead ([files/foreign.yaml](files/foreign.yaml)).
`

// readme writes a table for each task: a line "## TITLE" of values.yaml begins one.
func readme(rows []chartValue, tasks map[string]string) string {
	b := &strings.Builder{}
	b.WriteString(intro)
	cell := strings.NewReplacer("|", `\|`)
	for _, r := range rows {
		if title := tasks[r.Path]; title != "" {
			fmt.Fprintf(b, "\n### %s\n\n| value | default | |\n|---|---|---|\n", title)
		}
		text := ""
		if r.Default != "" {
			text = "`" + r.Default + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", r.Path, cell.Replace(text), cell.Replace(r.Text))
	}
	return b.String()
}
