package gpu

import (
	"fmt"
	"io"
	"strings"
)

// Table writes the answers as a table of Markdown, and the sum. It returns whether one differs.
func Table(w io.Writer, answers []Answer) (different bool, err error) {
	var b strings.Builder
	b.WriteString("| result | asked | answer | compared with, or why not asked |\n|---|---|---|---|\n")
	count := map[Result]int{}
	for _, a := range answers {
		count[a.Result]++
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.Result, cell(a.Question), cell(a.Answer), cell(a.Compared))
	}
	fmt.Fprintf(&b, "\n%d the same, %d different, %d not asked.\n", count[Same], count[Different], count[NotAsked])
	_, err = io.WriteString(w, b.String())
	return count[Different] > 0, err
}

// cell keeps a text, which may come from the driver, on one line and in its column.
func cell(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`)
}
