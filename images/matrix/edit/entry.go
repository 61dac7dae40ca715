package edit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// entry returns the lines of a driver's entry, without line ends.
func (l *list) entry(d matrix.Driver, comment []string) []string {
	var lines []string
	key := strings.Repeat(" ", len(l.head)) // column of the entry's keys
	for _, c := range comment {
		lines = append(lines, strings.TrimRight(l.dash+"# "+c, " "))
	}
	put := func(depth int, name, value string) {
		line := key + strings.Repeat("  ", depth) + name + ":"
		if value != "" {
			line += " " + value
		}
		lines = append(lines, line)
	}
	putArchive := func(depth int, arch string, a matrix.Archive) {
		put(depth, arch, "")
		put(depth+1, "url", scalar(a.URL))
		put(depth+1, "sha256", scalar(a.SHA256))
		if a.Size > 0 {
			put(depth+1, "size", fmt.Sprint(a.Size))
		}
	}
	lines = append(lines, l.head+"version: "+d.Version)
	put(0, "branch", d.Branch)
	put(0, "archives", "")
	for _, arch := range slices.Sorted(maps.Keys(d.Archives)) {
		putArchive(1, arch, d.Archives[arch])
	}
	if len(d.Components) > 0 {
		put(0, "components", "")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components)) {
		put(1, name, "")
		for _, arch := range slices.Sorted(maps.Keys(d.Components[name])) {
			putArchive(2, arch, d.Components[name][arch])
		}
	}
	if d.CUDA != "" {
		put(0, "cuda", d.CUDA)
	}
	put(0, "flavours", "["+strings.Join(d.Flavours, ", ")+"]")
	if !d.Kernel.IsZero() {
		put(0, "kernel", "")
		for _, k := range [][2]string{{"min", d.Kernel.Min}, {"max", d.Kernel.Max}, {"reason", d.Kernel.Reason}} {
			if k[1] != "" {
				put(1, k[0], scalar(k[1]))
			}
		}
	}
	return lines
}

// scalar writes a value plain where YAML reads it back unchanged, else quoted. Parse takes every value as
// text, so 418.10 needs no quotes; only a value that would end the plain style does.
func scalar(text string) string {
	if text == "" || strings.ContainsAny(text, "\n\r\t\"") || strings.Contains(text, ": ") || strings.Contains(text, " #") ||
		strings.HasSuffix(text, ":") || text != strings.TrimSpace(text) || strings.ContainsAny(text[:1], "-?:,[]{}#&*!|>'%@`~") {
		return `'` + strings.ReplaceAll(text, "'", "''") + `'`
	}
	return text
}
