package releases

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// branchOnly is a branch as people write it: 580, R580.
var branchOnly = regexp.MustCompile(`^[Rr]?[0-9]{3,4}$`)

// Resolve puts the newest version of the matrix in the place of each branch among names of drivers ("580",
// "R580"), and says so. A branch that the matrix lacks stays, for whoever looks the names up. Drivers for vGPU
// guests, which need a licence, are meant only by their versions.
func Resolve(m *matrix.Matrix, names []string) (notes []string) {
	for i, name := range names {
		if !branchOnly.MatchString(name) {
			continue
		}
		newest := ""
		for _, d := range m.Drivers {
			if d.VGPU == "" && strings.EqualFold(d.Branch, "R"+strings.TrimLeft(name, "Rr")) && (newest == "" || Compare(d.Version, newest) > 0) {
				newest = d.Version
			}
		}
		if newest != "" {
			notes = append(notes, fmt.Sprintf("--driver %s means %s, the newest of its branch in the matrix", name, newest))
			names[i] = newest
		}
	}
	return notes
}
