package gpus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Check returns an error if a release of the driver ("535.261.03") with modules of a flavour does not drive
// the GPU. With the flavour "" any flavour will do. A driver whose version has no number passes.
func (g GPU) Check(driver, flavour string) error {
	refused := func(format string, args ...any) error {
		name := g.Name
		if g.Device != 0 && name != g.ID() {
			name += " (" + g.ID() + ")"
		}
		return fmt.Errorf("driver %s does not drive %s: %s", driver, name, fmt.Sprintf(format, args...))
	}
	number := BranchNumber(driver)
	if last := BranchNumber(g.LastBranch); number > 0 && last > 0 && number > last {
		return refused("%s is the last branch that drives it", g.LastBranch)
	}
	if first := BranchNumber(g.FirstBranch); number > 0 && number < first {
		return refused("%s (%s) is in no list before that of %s", g.Chip, g.Generation, g.FirstBranch)
	}
	if flavour != "" && !slices.Contains(g.Flavours, flavour) {
		return refused("it needs the %s modules", strings.Join(g.Flavours, " or "))
	}
	if flavour == Open && number > 0 && number < BranchNumber(g.OpenFrom) {
		return refused("the open modules drive it from %s on", g.OpenFrom)
	}
	if number > 0 && number < firstOpen && !slices.Contains(g.Flavours, Proprietary) {
		return refused("it needs the open modules, which came with R%d", firstOpen)
	}
	return nil
}

// firstOpen is the first branch with open modules.
const firstOpen = 515

// BranchNumber returns the number of a branch or version: 470 for "R470" and "470.256.02"; 0 if
// there is none.
func BranchNumber(s string) int {
	first, _, _ := strings.Cut(strings.TrimPrefix(s, "R"), ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}
