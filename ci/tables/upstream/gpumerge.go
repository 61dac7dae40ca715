package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/gpus"
)

// seen is what the lists say about a device number.
type seen struct {
	oldest, newest int // lists that drive it
	latest         int // the newest list that names it
	legacy         int // as in the newest list that names it
	open, closed   int // the oldest list whose open modules drive it, the newest whose do not
	names, boards  []string
}

// merge returns the lines of the table: every number of a list, and the GPUs since Fermi that only
// pci.ids names.
func merge(lists []branchList, chips map[uint16]chip) (lines []string, err error) {
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
	for _, device := range slices.Sorted(maps.Keys(all)) {
		s := all[device]
		c := chips[device]
		switch {
		case c.code == "" && s.legacy != 0 && s.legacy < lastBranches["Fermi"]:
			c.code = "-" // a driver that is not here: its chip does not matter
		case c.code == "" || !c.gpu:
			return nil, fmt.Errorf(
				"%04x (%s) is not in pci.ids: its chip is not known",
				device,
				s.names,
			)
		}
		generation := gpus.GenerationOf(c.code)
		last := lastBranches[generation]
		if generation != gpus.PreFermi && s.legacy > last {
			return nil, fmt.Errorf(
				"%04x (%s, %s): its last branch is %d, that of %s is %d",
				device,
				c.code,
				s.names[0],
				s.legacy,
				generation,
				last,
			)
		}
		lists := number(s.oldest)
		if s.newest > s.oldest {
			lists += "-" + number(s.newest)
		}
		lines = append(lines, strings.Join([]string{
			fmt.Sprintf(
				"%04x",
				device,
			), c.code, number(cmp.Or(first[c.code], first[generation])), number(cmp.Or(s.legacy, last)),
			s.flavours(device, generation), lists, strings.Join(append(s.names, s.boards...), "; "),
		}, "\t"))
	}
	return lines, nil
}

// collect merges the lists by device number, the newest first.
func collect(lists []branchList) (map[uint16]*seen, error) {
	all := map[uint16]*seen{}
	for _, l := range slices.Backward(lists) {
		legacy := map[uint16]int{}
		for _, e := range l.entries {
			if before, ok := legacy[e.device]; ok && before != e.legacy {
				return nil, fmt.Errorf(
					"the list of %d has %04x twice, with the branches %d and %d",
					l.branch,
					e.device,
					before,
					e.legacy,
				)
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
		s.oldest = branch
		s.newest = max(s.newest, branch)
	}
	if e.open {
		s.open = branch
	}
	if e.closed {
		s.closed = max(s.closed, branch)
	}
	name := strings.ReplaceAll(e.name, "; ", ", ") // names are parted by "; " in the table
	same := func(n string) bool { return strings.TrimPrefix(n, "NVIDIA ") == strings.TrimPrefix(name, "NVIDIA ") }
	switch {
	case slices.ContainsFunc(append(s.names, s.boards...), same):
	case e.board || len(s.names) > 0 && branch < s.latest:
		s.boards = append(s.boards, name)
	default:
		s.names = append(s.names, name)
	}
}

// firstOf returns the oldest list that drives a GPU of each chip: a driver knows chips, and not
// boards. A chip that is in no list is as new as the newest of its generation.
func firstOf(all map[uint16]*seen, chips map[uint16]chip) map[string]int {
	first := map[string]int{}
	for device, s := range all {
		code := chips[device].code
		if s.oldest > 0 && (first[code] == 0 || s.oldest < first[code]) {
			first[code] = s.oldest
		}
	}
	for code, branch := range maps.Clone(first) {
		generation := gpus.GenerationOf(code)
		first[generation] = max(first[generation], branch)
	}
	return first
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// lastBranches are the last branches of whole generations. That of Fermi and Kepler is also what
// the lists say; the lists in Debian end with R555, which drives Maxwell to Volta. R580 is their
// last: the table of legacy GPUs in the installer of 590.44.01 (nvGpus.h of nvidia-installer) names
// 580.xx for them.
var lastBranches = map[string]int{
	"Fermi":   390,
	"Kepler":  470,
	"Maxwell": 580,
	"Pascal":  580,
	"Volta":   580,
}

// flavours returns the flavours that drive a GPU of a generation, by the rules of NVIDIA's
// installer: there are no open modules before Turing; Blackwell, and Hopper with a Grace (0x2340 to
// 0x237f, detect-self-hosted.h), need them. Of a GPU that older lists leave out of those of the
// open modules, the first list that has it counts.
func (s *seen) flavours(device uint16, generation string) string {
	switch {
	case slices.Contains([]string{gpus.PreFermi, "Fermi", "Kepler", "Maxwell", "Pascal", "Volta"}, generation):
		return "p"
	case generation == "Blackwell" || device >= 0x2340 && device <= 0x237f:
		return "o"
	case s.closed == 0 || s.open > 0 && s.open <= s.closed:
		return "po"
	case s.open == 0:
		return "p"
	}
	return "po" + number(s.open)
}
