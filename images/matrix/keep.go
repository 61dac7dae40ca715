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
			comment := strings.HasPrefix(words, "#") && len(lines[at-1])-len(words) <= margin
			if !comment && (!last || strings.TrimSpace(words) != "") {
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
	var b strings.Builder
	line := func(depth int, format string, args ...any) {
		fmt.Fprintf(&b, strings.Repeat("  ", depth)+format+"\n", args...)
	}
	archives := func(depth int, of map[string]Archive) {
		for _, arch := range slices.Sorted(maps.Keys(of)) {
			line(depth, "%s:", arch)
			line(depth+1, "url: %s", of[arch].URL)
			line(depth+1, "sha256: %s", of[arch].SHA256)
			if of[arch].Size > 0 {
				line(depth+1, "size: %d", of[arch].Size)
			}
		}
	}
	for _, text := range comment {
		line(1, "# %s", text)
	}
	line(1, "- version: %s", d.Version)
	line(2, "archives:")
	archives(3, d.Archives)
	if len(d.Components) > 0 {
		line(2, "components:")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components)) {
		line(3, "%s:", name)
		archives(4, d.Components[name])
	}
	if d.CUDA != "" {
		line(2, "cuda: %s", d.CUDA)
	}
	if !d.Kernel.IsZero() {
		line(2, "kernel:")
	}
	for _, limit := range [][2]string{{"min", d.Kernel.Min}, {"max", d.Kernel.Max}, {"reason", d.Kernel.Reason}} {
		if limit[1] != "" {
			line(3, "%s: %q", limit[0], limit[1])
		}
	}
	const system = "systems: [{id: debian12, base: 'debian:12', archs: [amd64], kernels: [6.1]}]\ndrivers:\n"
	_, err := Parse("the entry", []byte(system+b.String()))
	if wrong, ok := errors.AsType[Errors](err); ok {
		return "", fmt.Errorf("driver %s: %s", d.Version, wrong[0].Message)
	}
	return b.String(), err
}
