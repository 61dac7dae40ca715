package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// entry is a row of a list: a GPU, or a board with it.
type entry struct {
	device uint16
	board  bool // the row is about one board, not about all with the number
	name   string
	legacy int  // the branch that drives it instead, 470; 0 if this one does
	open   bool // the open modules drive it; only lists since 525 say so
}

// branchList is the list of one branch.
type branchList struct {
	branch  int
	entries []entry
}

// firstWithOpen is the oldest list that says which GPUs the open modules drive.
const firstWithOpen = 525

// readLists reads all lists of a folder, the oldest first.
func readLists(folder fs.FS) ([]branchList, error) {
	names, err := fs.Glob(folder, "[0-9][0-9][0-9].*")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("the folder has no list, such as 450.json or 390.txt")
	}
	slices.Sort(names)
	var lists []branchList
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		l := branchList{}
		if l.branch, err = strconv.Atoi(name[:3]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if strings.HasSuffix(name, ".json") {
			l.entries, err = supported(data)
		} else {
			l.entries, err = appendix(data)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// supported reads a supported-gpus.json.
func supported(data []byte) ([]entry, error) {
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
		e := entry{device: uint16(device), board: c.SubVendorID != "", name: c.Name, open: slices.Contains(c.Features, "kernelopen")}
		if c.LegacyBranch != "" {
			first, _, _ := strings.Cut(c.LegacyBranch, ".")
			if e.legacy, err = strconv.Atoi(first); err != nil {
				return nil, fmt.Errorf("legacybranch %q: %w", c.LegacyBranch, err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

var (
	// readmeRow is a row of appendix A: name, number of the device, perhaps of the board, video features.
	readmeRow = regexp.MustCompile(`^ {4}(\S.*?) {2,}([0-9A-F]{4})( [0-9A-F]{4} [0-9A-F]{4})?(?: +\S+)?$`)
	// readmeLegacy begins the table of an older branch.
	readmeLegacy = regexp.MustCompile(`^The (\d+)\.[\dx.]+ driver supports`)
)

// appendix reads appendix A of a README: the tables of GPUs, then one table for each legacy branch.
func appendix(data []byte) ([]entry, error) {
	var all []entry
	legacy := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := lines.Text()
		if m := readmeLegacy.FindStringSubmatch(line); m != nil {
			legacy, _ = strconv.Atoi(m[1]) // the expression has digits
		}
		m := readmeRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		device, err := strconv.ParseUint(m[2], 16, 16)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{device: uint16(device), board: m[3] != "", name: m[1], legacy: legacy})
	}
	if len(all) == 0 {
		return nil, errors.New("no row of appendix A in it")
	}
	return all, nil
}
