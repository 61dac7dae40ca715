package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Width is that of a terminal on which help has to fit, in columns.
const Width = 80

// joined finds the ends of lines inside a paragraph.
var joined = lazyregexp.New(`(\S)\n(\S)`)

// Help prints what a command does, and its usage.
func Help(c *cobra.Command, _ []string) {
	about := joined().ReplaceAllString(cmp.Or(c.Long, c.Short), "$1 $2")
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", Fold(about, " ", "\n"), c.UsageString())
}

// Fold puts a break into lines that are wider than Width, where they have a gap, else at a space.
func Fold(text, gap, broken string) string {
	end, indent, _ := strings.Cut(broken, "\n")
	var b strings.Builder
	for line := range strings.Lines(text) {
		for len(strings.TrimSuffix(line, "\n")) > Width {
			at := strings.LastIndex(line[:Width-1], gap)
			if at <= len(indent) {
				at = strings.LastIndexByte(line[:Width-1], ' ')
			}
			b.WriteString(line[:at] + end + "\n")
			line = indent + line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}
