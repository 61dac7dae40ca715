// Command goals prints the raw numbers of ci/bench/run as tables: which goal is met, by which numbers, and the
// medians of all cases. No verdict is typed. Numbers of a busy machine have a mark.
//
//	go run ./ci/bench/goals bench.tsv
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := start(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
}

func start(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("give one file of raw numbers, such as bench.tsv")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	numbers, err := read(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s", goalTable(numbers), caseTable(numbers))
	return err
}
