package preflight

import (
	"fmt"
	"io"
	"strings"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// Table writes the checks for people: one row each, with the fix indented below it. The text
// consists of plain ASCII words in columns and ends with a sentence about the result.
func Table(w io.Writer, checks []Check) error {
	wide := len("CHECK")
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	var b strings.Builder
	row := func(name, status, text string) { fmt.Fprintf(&b, "%-*s  %-7s  %s\n", wide, name, status, text) }
	row("CHECK", "RESULT", "FINDING")
	count := map[Status]int{}
	for _, c := range checks {
		count[c.Status]++
		row(c.Name, words[c.Status], oneLine(c.Finding))
		if c.Fix != "" && c.Status != OK {
			row("", "", "fix: "+oneLine(c.Fix))
		}
	}
	switch {
	case count[Blocked] > 0:
		fmt.Fprintf(
			&b,
			"\n%s must be fixed before the driver can start; %s.\n",
			number(count[Blocked], "check"),
			number(count[Warning], "warning"),
		)
	case count[Warning] > 0:
		fmt.Fprintf(&b, "\nThe driver can start; %s.\n", number(count[Warning], "warning"))
	default:
		b.WriteString("\nThe driver can start.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// words are the results in the table; a failure is in upper case.
var words = map[Status]string{OK: "ok", Warning: "warn", Blocked: "FAIL", Skipped: "skipped"}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine prevents a text from outside from breaking the table.
func oneLine(s string) string { return strings.ReplaceAll(kmsg.PrintableLines(s), "\n", " ") }
