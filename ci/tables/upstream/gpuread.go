package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// entry is a row of a list: a GPU, or a board with it.
type entry struct {
	device uint16
	board  bool // the row is about one board, not about all with the number
	name   string
	legacy int  // the branch that drives it instead, 470; 0 if this one does
	open   bool // the open modules drive it
	closed bool // the list knows the open modules, and they do not
}

// branchList is the list of a release.
type branchList struct {
	branch  int
	entries []entry
}

// firstWithOpen is the oldest supported-gpus.json that says which GPUs the open modules drive.
const firstWithOpen = 525

// readLists reads all lists of a folder, the oldest first.
func readLists(folder fs.FS) ([]branchList, error) {
	names, err := fs.Glob(folder, "[0-9][0-9][0-9]*.*")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("the folder has no list, such as 450.json, 390.txt or 580.142.md")
	}
	version := func(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }
	slices.SortFunc(
		names,
		func(a, b string) int { return matrix.CompareVersions(version(a), version(b)) },
	)
	var lists []branchList
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		l := branchList{branch: matrix.Major(version(name))}
		switch path.Ext(name) {
		case ".json":
			l.entries, err = supported(data, l.branch)
		case ".txt":
			l.entries, err = rows(data, readmeRow)
		default: // what the open modules drive
			l.entries, err = rows(data, openRow)
			for i := range l.entries {
				l.entries[i].open = true
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// supported reads a supported-gpus.json.
func supported(data []byte, branch int) ([]entry, error) {
	var list struct {
		Chips []struct {
			DevID, SubVendorID, Name, LegacyBranch string
			Features                               []string
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var all []entry
	for _, c := range list.Chips {
		device, err := strconv.ParseUint(c.DevID, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("devid %q: %w", c.DevID, err)
		}
		e := entry{
			device: uint16(device),
			board:  c.SubVendorID != "",
			name:   c.Name,
			open:   slices.Contains(c.Features, "kernelopen"),
		}
		e.closed = !e.open && branch >= firstWithOpen
		if c.LegacyBranch != "" {
			e.legacy = matrix.Major(strings.TrimSuffix(c.LegacyBranch, ".xx"))
			if e.legacy == 0 {
				return nil, fmt.Errorf("legacybranch %q is no branch", c.LegacyBranch)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

var (
	// readmeRow is a row of appendix A: name, number of the device, perhaps of the board, video
	// features.
	readmeRow = regexp.MustCompile(
		`^ {4}(\S.*?) {2,}([0-9A-F]{4})( [0-9A-F]{4} [0-9A-F]{4})?(?: +\S+)?$`,
	)
	// openRow is a row of the README of the open modules.
	openRow = regexp.MustCompile(`^\| (\S.*?) +\| ([0-9A-F]{4})( [0-9A-F]{4} [0-9A-F]{4})? +\|$`)
	// readmeLegacy begins the table of an older branch.
	readmeLegacy = regexp.MustCompile(`^The (\d+)\.[\dx.]+ driver supports`)
)

// rows reads the tables of a README; those of appendix A are followed by one for each legacy
// branch.
func rows(data []byte, row *regexp.Regexp) ([]entry, error) {
	var all []entry
	legacy := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		if m := readmeLegacy.FindStringSubmatch(line); m != nil {
			legacy = matrix.Major(m[1])
		}
		if m := row.FindStringSubmatch(line); m != nil {
			device, _ := strconv.ParseUint(m[2], 16, 16) // the expression has four digits
			all = append(
				all,
				entry{device: uint16(device), board: m[3] != "", name: m[1], legacy: legacy},
			)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no row of a table of GPUs in it")
	}
	return all, nil
}
