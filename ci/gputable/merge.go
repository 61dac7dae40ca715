package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/gpulist"
)

// row is a line of the table.
type row struct {
	device         uint16
	chip           string
	first, last    int // branches; 0: none
	flavours       string
	oldest, newest int // lists that drive it; 0: none
	names          []string
}

// seen is what the lists say about a device number.
type seen struct {
	oldest, newest int // lists that drive it
	latest         int // the newest list that names it
	legacy         int // as in the newest list that names it
	open           bool
	names, boards  []string // newest first; boards: of rows for one board
}

// merge makes the table: every number of a list, and the GPUs since Fermi that only pci.ids names.
func merge(lists []branchList, chips map[uint16]chip) ([]row, error) {
	all, err := collect(lists)
	if err != nil {
		return nil, err
	}
	first := firstOf(all, chips)
	for device, c := range chips {
		if all[device] == nil && c.gpu {
			all[device] = &seen{names: []string{c.name}}
		}
	}
	var rows []row
	for _, device := range slices.Sorted(maps.Keys(all)) {
		s, c := all[device], chips[device]
		switch {
		case c.code == "" && s.legacy != 0 && s.legacy < firstFermi:
			c.code = "-" // a driver that is not here: its chip does not matter
		case c.code == "" || !c.gpu:
			return nil, fmt.Errorf("%04x (%s) is not in pci.ids: its chip is not known", device, s.names)
		}
		generation := gpulist.GenerationOf(c.code)
		r := row{
			device: device, chip: c.code, first: first[c.code], last: s.legacy, flavours: flavoursOf(device, generation),
			oldest: s.oldest, newest: s.newest, names: append(s.names, s.boards...),
		}
		if r.first == 0 {
			r.first = firstBranches[generation]
		}
		if r.last == 0 {
			r.last = lastBranches[generation]
		}
		if r.flavours == "po" && s.latest >= firstWithOpen && !s.open {
			r.flavours = "p" // NVIDIA's list leaves it out of those of the open modules
		}
		if err := r.check(); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// collect merges the lists by device number, the newest first.
func collect(lists []branchList) (map[uint16]*seen, error) {
	all := map[uint16]*seen{}
	for _, l := range slices.Backward(lists) {
		legacy := map[uint16]int{}
		for _, e := range l.entries {
			if before, ok := legacy[e.device]; ok && before != e.legacy {
				return nil, fmt.Errorf("the list of %d has %04x twice, with the branches %d and %d", l.branch, e.device, before, e.legacy)
			}
			legacy[e.device] = e.legacy
			s := all[e.device]
			if s == nil {
				s = &seen{latest: l.branch, legacy: e.legacy}
				all[e.device] = s
			}
			s.add(l.branch, e)
		}
	}
	return all, nil
}

func (s *seen) add(branch int, e entry) {
	if e.legacy == 0 {
		s.oldest, s.newest = branch, max(s.newest, branch)
	}
	s.open = s.open || e.open
	name := strings.ReplaceAll(e.name, "; ", ", ") // names are parted by "; " in the table
	same := func(n string) bool { return strings.TrimPrefix(n, "NVIDIA ") == strings.TrimPrefix(name, "NVIDIA ") }
	if slices.ContainsFunc(append(s.names, s.boards...), same) {
		return
	}
	if e.board || len(s.names) > 0 && branch < s.latest {
		s.boards = append(s.boards, name)
		return
	}
	s.names = append(s.names, name)
}

// firstOf returns the oldest list that drives a GPU of each chip: a driver knows chips, and not boards.
func firstOf(all map[uint16]*seen, chips map[uint16]chip) map[string]int {
	first := map[string]int{}
	for device, s := range all {
		code := chips[device].code
		if s.oldest > 0 && (first[code] == 0 || s.oldest < first[code]) {
			first[code] = s.oldest
		}
	}
	return first
}

// line returns the row as a line of the table.
func (r row) line() string {
	number := func(n int) string {
		if n == 0 {
			return "-"
		}
		return strconv.Itoa(n)
	}
	lists := number(r.oldest)
	if r.newest > r.oldest {
		lists += "-" + number(r.newest)
	}
	return strings.Join([]string{
		fmt.Sprintf("%04x", r.device), r.chip, number(r.first), number(r.last), r.flavours, lists, strings.Join(r.names, "; "),
	}, "\t")
}
