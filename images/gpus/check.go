package gpus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
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
	number := matrix.Major(driver)
	if last := matrix.Major(g.LastBranch); number > 0 && last > 0 && number > last {
		return refused("%s is the last branch that drives it", g.LastBranch)
	}
	if first := matrix.Major(g.FirstBranch); number > 0 && number < first {
		return refused("%s (%s) is in no list before that of %s", g.Chip, g.Generation, g.FirstBranch)
	}
	if flavour != "" && !slices.Contains(g.Flavours, flavour) {
		return refused("it needs the %s modules", strings.Join(g.Flavours, " or "))
	}
	if flavour == Open && number > 0 && number < matrix.Major(g.OpenFrom) {
		return refused("the open modules drive it from %s on", g.OpenFrom)
	}
	if number > 0 && number < matrix.FirstOpen && !slices.Contains(g.Flavours, Proprietary) {
		return refused("it needs the open modules, which came with R%d", matrix.FirstOpen)
	}
	return nil
}
