package releases

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
)

// branchName is the form of a branch, or of a version of it.
var branchName = regexp.MustCompile(`^[Rr]?[0-9]{3,4}(\.[0-9]+)*$`)

// CheckBranch refuses what is neither a branch nor a version.
func CheckBranch(name string) error {
	if branchName.MatchString(name) {
		return nil
	}
	const format = "branch %q: give a name such as R535, or a version such as 580.178.04"
	return fmt.Errorf(format, name)
}

// LagError returns an error of kind [failure.Some] if there are branches whose newest release the
// matrix lacks: rows of [Table.Coverage] with lagging.
func LagError(rows []Coverage) error {
	if len(rows) == 0 {
		return nil
	}
	var lags, addable []string
	for _, r := range rows {
		had := r.Matrix[len(r.Matrix)-1]
		lags = append(lags, fmt.Sprintf("%s has %s, newest is %s", r.Name, had, r.Newest))
		if r.Addable != "" {
			addable = append(addable, r.Addable)
		}
	}
	text := "; no checksum of these is known: driver-build matrix add-driver needs --redist or --download for them"
	if len(addable) > 0 {
		text = "; driver-build matrix add-driver VERSION has the entries of " + strings.Join(addable, ", ")
	}
	return failure.New(failure.Some, "the matrix lags behind: "+strings.Join(lags, ", ")+text)
}

// Note is a hint about a branch: which release is recommended, and what the matrix lacks.
func (c *Coverage) Note() string {
	var notes []string
	for _, r := range c.Releases {
		if r.Recommended != "" {
			notes = append(notes, r.Version+" is "+r.Recommended)
		}
	}
	switch {
	case c.Lags && c.Addable == "":
		notes = append(notes, "lags behind: "+c.Newest+" is out, no checksum is known")
	case c.Lags:
		notes = append(notes, "lags behind: "+c.Newest+" is out")
	case len(c.Matrix) == 0 && !c.Over && c.Newest != "":
		const format = "not in the matrix: driver-build matrix add-driver %s prints its row"
		notes = append(notes, fmt.Sprintf(format, c.Newest))
	case len(c.Matrix) > 0 && c.Over:
		notes = append(notes, "has the last release")
	}
	return strings.Join(notes, "; ")
}

// Note is what is known of a release.
func (r *ReleaseCoverage) Note() string {
	notes := []string{r.Recommended}
	if !r.InMatrix && len(r.Checked) == 0 {
		notes = append(notes, "no checksum is known")
	}
	for _, a := range r.Advisories {
		notes = append(notes, a.Text(time.Time{}))
	}
	isEmpty := func(note string) bool { return note == "" }
	return strings.Join(slices.DeleteFunc(notes, isEmpty), "; ")
}
