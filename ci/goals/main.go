// Command goals turns the raw numbers of ci/bench into the tables of docs/benchmarks.md: which goal is met,
// by which numbers. No verdict is typed.
//
//	go run ./ci/goals bench.tsv                            # prints the tables
//	go run ./ci/goals -page docs/benchmarks.md bench.tsv   # writes them into the page
//
// Numbers of a busy machine are printed, with a mark, and not written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

func main() {
	if err := start(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
}

var errBusy = errors.New("other programs used the machine, so these numbers are no results: run make bench on a quiet machine")

func start(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("goals", flag.ContinueOnError)
	page := flags.String("page", "", "file with the tables to replace")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("give one file of raw numbers, such as bench.tsv")
	}
	f, err := os.Open(flags.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	numbers, err := read(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", flags.Arg(0), err)
	}
	if *page == "" {
		_, err := fmt.Fprintf(stdout, "%s\n%s", goalTable(numbers), caseTable(numbers))
		return err
	}
	if numbers.busy {
		return fmt.Errorf("write %s: %w", *page, errBusy)
	}
	return writePage(*page, numbers)
}

// writePage replaces the generated parts of a page.
func writePage(name string, numbers *raw) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	page := string(text)
	for part, table := range map[string]string{"goals": goalTable(numbers), "cases": caseTable(numbers)} {
		if page, err = replace(page, part, table); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return atomicwriter.WriteFile(name, []byte(page), 0o644)
}

const end = "<!-- end -->\n"

func replace(page, part, table string) (string, error) {
	begin := "<!-- measured by ci/goals: " + part + " -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("it has no part %q, which begins with %q and ends with %q", part, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + table + end + after, nil
}
