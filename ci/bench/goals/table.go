package main

import (
	"fmt"
	"strings"
)

// head says of which machine and when the numbers are.
func head(r *raw) string {
	var b strings.Builder
	if r.busy {
		b.WriteString("**Other programs used the machine: these numbers are no results.**\n\n")
	}
	for _, note := range r.notes {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(strings.TrimPrefix(note, busyNote)))
	}
	return b.String()
}

// goalTable is the table of goals. "C tools" are dpkg-deb, zstd and gzip alone for the same bytes, and the
// number behind the colon is the best possible speed-up.
func goalTable(r *raw) string {
	var b strings.Builder
	b.WriteString(head(r))
	b.WriteString("| goal | driver-build or node | alternative | ratio | C tools | runs, highest load before | |\n|---|---|---|---|---|---|---|\n")
	for _, g := range goals {
		res := g.judge(r)
		runs := ""
		if res.runs > 0 {
			runs = fmt.Sprint(res.runs)
			if res.load != "" {
				runs += ", " + res.load
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", g.text, res.ours, res.alternative, res.ratio, res.bound, runs, res.verdict)
	}
	return b.String()
}

// caseTable has the medians of everything that was measured.
func caseTable(r *raw) string {
	var b strings.Builder
	b.WriteString("| part | case | runs | elapsed, s | processor, s | peak, MB | MB | highest load before |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range r.order {
		part, rest, _ := strings.Cut(name, "/")
		cell := func(of column, digits int) string {
			v, _ := r.median(name, of)
			if v == 0 {
				return ""
			}
			return fmt.Sprintf("%.*f", digits, v)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %s | %s | %s |\n", part, rest, len(r.runs[name]),
			cell(elapsed, 2), cell(processor, 2), cell(peak, 0), cell(megabytes, 1), r.load(name))
	}
	return b.String()
}
