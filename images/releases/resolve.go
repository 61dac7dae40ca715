package releases

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// branchOnly is a branch as people write it: 580, R580.
var branchOnly = regexp.MustCompile(`^[Rr]?[0-9]{3,4}$`)

// Resolve replaces each branch among names of drivers ("580", "R580") by its newest version in the matrix. The
// notes say which. A branch that the matrix lacks stays: the caller refuses it as an unknown driver. A branch
// never means a driver for vGPU guests, which needs a licence.
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
