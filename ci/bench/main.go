// Command bench prints the raw numbers of ci/bench/run as tables: which goal is met, by which
// numbers, and the medians of all cases. No verdict is typed.
//
//	go run ./ci/bench bench.tsv
//	go run ./ci/bench archive TREE VERSION FILE.run    makes an archive for the cases, of an installed driver
//
// A line of raw numbers has part, case, seconds, peak KB, processor seconds and MB; a number that
// was not measured is empty. Lines that begin with "# " say of which machine the numbers are.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
)

func main() {
	if err := start(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(args []string, stdout io.Writer) error {
	if len(args) == 4 && args[0] == "archive" {
		return archive(args[1], args[2], args[3])
	}
	if len(args) != 1 {
		return errors.New("give one file of raw numbers, such as bench.tsv")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	all, err := goals()
	if err != nil {
		return fmt.Errorf("read goals.yaml: %w", err)
	}
	_, err = fmt.Fprint(stdout, r.head, "\n", goalTable(all, r), "\n", caseTable(r))
	return err
}

// archive makes a .run archive of an installed driver in a folder.
func archive(tree, version, file string) error {
	a, _, err := makeself.FromTree(os.DirFS(tree), version, "x86_64")
	if err != nil {
		return err
	}
	return a.WriteFile(context.Background(), file)
}

// column is a number of a run.
type column string

const (
	elapsed   column = "elapsed"   // seconds
	peak      column = "peak"      // MB of memory
	processor column = "processor" // seconds
	megabytes column = "megabytes" // of what was made
)

// columns are the numbers in a line, in their order.
var columns = []column{elapsed, peak, processor, megabytes}

// raw are the numbers of all runs.
type raw struct {
	head  string               // which machine
	order []string             // the cases, as they come: "buildkit/universal-cold-dockerfile"
	runs  map[string][]numbers // by case
}

// numbers are those of one run; what was not measured is 0.
type numbers map[column]float64

func read(from io.Reader) (*raw, error) {
	r := &raw{runs: map[string][]numbers{}}
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		if note, ok := strings.CutPrefix(lines.Text(), "# "); ok {
			r.head += note + "\n"
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != len(columns)+2 {
			return nil, fmt.Errorf("line %d: %d columns, want %d", n, len(fields), len(columns)+2)
		}
		run := numbers{}
		for i, text := range fields[2:] {
			v, err := strconv.ParseFloat(cmp.Or(text, "0"), 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			run[columns[i]] = v
		}
		run[peak] /= 1000
		name := fields[0] + "/" + fields[1]
		if r.runs[name] == nil {
			r.order = append(r.order, name)
		}
		r.runs[name] = append(r.runs[name], run)
	}
	return r, lines.Err()
}

// median is the median of a case, the lower one of two; 0 if it was not measured.
func (r *raw) median(name string, of column) float64 {
	values := []float64{0}
	for _, run := range r.runs[name] {
		values = append(values, run[of])
	}
	slices.Sort(values[1:])
	return values[len(values)/2]
}

// goalTable is the table of goals. "C tools" are dpkg-deb, zstd and gzip alone for the same bytes.
func goalTable(all []goal, r *raw) string {
	var b strings.Builder
	b.WriteString(
		"| goal | driver-build or node | alternative | ratio | C tools | runs | |\n|---|---|---|---|---|---|---|\n",
	)
	for _, g := range all {
		number := func(name string) string {
			if v := r.median(name, g.Of); v > 0 {
				return fmt.Sprintf("%.2f", v)
			}
			return ""
		}
		fmt.Fprintf(
			&b,
			"| %s | %s | %s | %s | %s | %d | %s |\n",
			g.Text,
			number(g.Ours),
			number(g.Alternative),
			g.ratio(r),
			number(g.Bound),
			len(r.runs[g.Ours]),
			g.verdict(r),
		)
	}
	return b.String()
}

// caseTable has the medians of everything that was measured.
func caseTable(r *raw) string {
	var b strings.Builder
	b.WriteString(
		"| case | runs | elapsed, s | peak, MB | processor, s | MB |\n|---|---|---|---|---|---|\n",
	)
	for _, name := range r.order {
		fmt.Fprintf(
			&b,
			"| %s | %d | %.2f | %.0f | %.2f | %.1f |\n",
			name,
			len(r.runs[name]),
			r.median(name, elapsed),
			r.median(name, peak),
			r.median(name, processor),
			r.median(name, megabytes),
		)
	}
	return b.String()
}
