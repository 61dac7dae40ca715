package matrix

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Keep returns a matrix with some of its systems and drivers, and the comments of what stays. A row
// of exclude about drivers that all go is a mistake.
func Keep(name string, text []byte, systems, drivers []string) ([]byte, error) {
	if _, err := Parse(name, text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		list, id string
		keep     []string
	}{{"systems", "id", systems}, {"drivers", "version", drivers}} {
		rows := child(doc.Content[0], of.list)
		rows.Content = slices.DeleteFunc(
			rows.Content,
			func(row *yaml.Node) bool { return !slices.Contains(of.keep, child(row, of.id).Value) },
		)
	}
	kept, err := yaml.Dump(
		&doc,
		yaml.WithIndent(2),
		yaml.WithCompactSeqIndent(false),
		yaml.WithLineWidth(120),
	)
	if err == nil {
		_, err = Parse(name, kept)
	}
	return kept, err
}

// Stanza returns the entry of a driver as a matrix has it in drivers, below a comment. The error is
// that of Parse about the entry.
func Stanza(d Driver, comment []string) (string, error) {
	var b strings.Builder
	line := func(depth int, key, value string) {
		fmt.Fprintf(
			&b,
			"%s%s:%s\n",
			strings.Repeat("  ", depth),
			key,
			strings.TrimRight(" "+value, " "),
		)
	}
	archives := func(depth int, of map[string]Archive) {
		for _, arch := range slices.Sorted(maps.Keys(of)) {
			line(depth, arch, "")
			line(depth+1, "url", of[arch].URL)
			line(depth+1, "sha256", of[arch].SHA256)
			if of[arch].Size > 0 {
				line(depth+1, "size", strconv.FormatInt(of[arch].Size, 10))
			}
		}
	}
	for _, text := range comment {
		b.WriteString("  # " + text + "\n")
	}
	line(1, "- version", d.Version)
	line(2, "archives", "")
	archives(3, d.Archives)
	for i, name := range slices.Sorted(maps.Keys(d.Components)) {
		if i == 0 {
			line(2, "components", "")
		}
		line(3, name, "")
		archives(4, d.Components[name])
	}
	if d.CUDA != "" {
		line(2, "cuda", d.CUDA)
	}
	if !d.Kernel.IsZero() {
		line(2, "kernel", "")
	}
	for _, limit := range [][2]string{{"min", d.Kernel.Min}, {"max", d.Kernel.Max}, {"reason", d.Kernel.Reason}} {
		if limit[1] != "" {
			line(3, limit[0], strconv.Quote(limit[1]))
		}
	}
	const system = "systems: [{id: debian12, base: 'debian:12', archs: [amd64], kernels: [6.1]}]\ndrivers:\n"
	_, err := Parse("the entry", []byte(system+b.String()))
	if wrong, ok := errors.AsType[Errors](err); ok {
		return "", fmt.Errorf("driver %s: %s", d.Version, wrong[0].Message)
	}
	return b.String(), err
}
