package matrix

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Keep returns the text of a matrix with some of its systems and drivers. What stays, stays as it is written.
// A row of exclude about drivers that all go is a mistake, and so are lists in flow style.
func Keep(name string, text []byte, systems, drivers []string) ([]byte, error) {
	_, err := Parse(name, text)
	for _, of := range []struct {
		list, id string
		keep     []string
	}{{"systems", "id", systems}, {"drivers", "version", drivers}} {
		if err != nil {
			return nil, err
		}
		if text, err = keepRows(text, of.list, of.id, of.keep); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, of.list, err)
		}
	}
	_, err = Parse(name, text)
	return text, err
}

// keepRows keeps the rows of a list whose id is one of some values, and the comments above them. Comments
// belong to what follows them.
func keepRows(text []byte, list, id string, values []string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	lines := slices.Collect(strings.Lines(string(text)))
	end, items := len(lines), []*yaml.Node(nil)
	for i, root := 0, doc.Content[0]; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == list {
			items = root.Content[i+1].Content
		} else if items != nil {
			end = root.Content[i].Line - 1
			break
		}
	}
	margin := 0 // of the dashes: what is deeper may be a text that only looks like a comment
	start := func(n int) int {
		at, last := end, n == len(items)
		if !last {
			at = items[n].Line - 1
		}
		for ; at > 0; at-- {
			words := strings.TrimLeft(lines[at-1], " ")
			if comment := strings.HasPrefix(words, "#") && len(lines[at-1])-len(words) <= margin; !comment && (!last || strings.TrimSpace(words) != "") {
				break
			}
		}
		return at
	}
	for _, item := range items {
		line := "" // lines that end in a carriage return alone are fewer than the parser's
		if item.Line <= end {
			line = lines[item.Line-1]
		}
		head, _, dashed := strings.Cut(line[:min(item.Column-1, len(line))], "-")
		if !dashed || item.Style&yaml.FlowStyle != 0 || strings.TrimSpace(head) != "" {
			return nil, fmt.Errorf("line %d: an entry that is not written in lines of its own", item.Line)
		}
		margin = len(head)
	}
	kept := strings.Join(lines[:start(0)], "")
	for n, item := range items {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value == id && slices.Contains(values, item.Content[i+1].Value) {
				kept += strings.Join(lines[start(n):start(n+1)], "")
			}
		}
	}
	rest := strings.Join(lines[start(len(items)):], "")
	if strings.HasPrefix(rest, "\n") {
		kept = strings.TrimRight(kept, "\n") + "\n"
	}
	return []byte(kept + rest), nil
}

// Stanza returns the entry of a driver as a matrix has it in drivers, below a comment. The error is that of
// Parse about the entry.
func Stanza(d Driver, comment []string) (string, error) {
	type archive struct {
		URL    string `yaml:"url"`
		SHA256 string `yaml:"sha256"`
		Size   int64  `yaml:"size,omitempty"`
	}
	archives := func(of map[string]Archive) map[string]archive {
		all := map[string]archive{}
		for arch, a := range of {
			all[arch] = archive(a)
		}
		return all
	}
	row := struct {
		Version    string
		Archives   map[string]archive
		Components map[string]map[string]archive `yaml:",omitempty"`
		CUDA       string                        `yaml:",omitempty"`
		Kernel     map[string]string             `yaml:",omitempty"`
	}{Version: d.Version, Archives: archives(d.Archives), CUDA: d.CUDA}
	for name, of := range d.Components {
		if row.Components == nil {
			row.Components = map[string]map[string]archive{}
		}
		row.Components[name] = archives(of)
	}
	row.Kernel = map[string]string{"min": d.Kernel.Min, "max": d.Kernel.Max, "reason": d.Kernel.Reason}
	maps.DeleteFunc(row.Kernel, func(_, value string) bool { return value == "" })
	text, err := yaml.Dump([]any{row}, yaml.WithIndent(2))
	if err != nil {
		return "", fmt.Errorf("write the entry of driver %s: %w", d.Version, err)
	}
	stanza := ""
	for _, line := range comment {
		stanza += "  # " + line + "\n"
	}
	for line := range strings.Lines(string(text)) {
		stanza += "  " + line
	}
	const system = "systems: [{id: debian12, base: 'debian:12', archs: [amd64], kernels: [6.1]}]\ndrivers:\n"
	if _, err := Parse("the entry", []byte(system+stanza)); err != nil {
		var wrong Errors
		if errors.As(err, &wrong) {
			return "", fmt.Errorf("driver %s: %s", d.Version, wrong[0].Message)
		}
		return "", err
	}
	return stanza, nil
}
