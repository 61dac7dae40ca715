package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// columns are those of a file of raw numbers, which ci/bench/run begins and its parts append to.
var columns = []string{"part", "case", "seconds", "peak KB", "processor seconds", "machine before", "MB"}

// run is one line of a file of raw numbers. Fields that a line leaves empty are 0.
type run struct {
	seconds, peakKB, processor, megabytes float64
	before                                string // "load 0.12"
}

// raw is a file of raw numbers.
type raw struct {
	notes []string // its lines that begin with "# ", without that: machine, versions
	busy  bool     // one of them says that other programs used the machine
	order []string // the cases, as they come: "buildkit/universal-cold-dockerfile"
	runs  map[string][]run
}

// busyNote is how a note begins that says that the numbers are no results.
const busyNote = "busy:"

func read(r io.Reader) (*raw, error) {
	found := &raw{runs: map[string][]run{}}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if note, ok := strings.CutPrefix(line, "# "); ok {
			found.notes = append(found.notes, note)
			found.busy = found.busy || strings.HasPrefix(note, busyNote)
			continue
		}
		fields := strings.Split(line, "\t")
		if fields[0] == columns[0] {
			continue
		}
		if err := found.add(fields); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return found, lines.Err()
}

func (r *raw) add(fields []string) error {
	if len(fields) < 5 || len(fields) > len(columns) {
		return fmt.Errorf("%d columns, instead of 5 to %d: %s", len(fields), len(columns), strings.Join(columns, ", "))
	}
	var v [7]float64
	for _, i := range []int{2, 3, 4, 6} {
		if i >= len(fields) || fields[i] == "" {
			continue
		}
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("%s %q: %w", columns[i], fields[i], err)
		}
		v[i] = n
	}
	one := run{seconds: v[2], peakKB: v[3], processor: v[4], megabytes: v[6]}
	if len(fields) > 5 {
		one.before = fields[5]
	}
	name := fields[0] + "/" + fields[1]
	if _, ok := r.runs[name]; !ok {
		r.order = append(r.order, name)
	}
	r.runs[name] = append(r.runs[name], one)
	return nil
}

// column says which number of a run counts.
type column func(run) float64

func elapsed(r run) float64   { return r.seconds }
func processor(r run) float64 { return r.processor }
func megabytes(r run) float64 { return r.megabytes }

// median is the median of a case, the upper one of two; false if it was not measured.
func (r *raw) median(name string, of column) (float64, bool) {
	all := r.runs[name]
	if len(all) == 0 {
		return 0, false
	}
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return values[len(values)/2], true
}

// load is the highest load before a run of these cases, for people; "" if none says it.
func (r *raw) load(names ...string) string {
	highest, found := 0.0, false
	for _, name := range names {
		for _, one := range r.runs[name] {
			v, err := strconv.ParseFloat(strings.TrimPrefix(one.before, "load "), 64)
			if err == nil {
				highest, found = max(highest, v), true
			}
		}
	}
	if !found {
		return ""
	}
	return strconv.FormatFloat(highest, 'f', 1, 64)
}
