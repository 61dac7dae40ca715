package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images"
)

// Verdict is the answer to one question about a pair.
type Verdict struct {
	State  string `json:"state"` // one of those below
	Detail string `json:"detail,omitempty"`
	Cause  string `json:"cause,omitempty"` // of a failure: equal for all pairs that it hits
}

// The states of a verdict.
const (
	VerdictOK      = "ok"
	VerdictFailed  = "failed"
	VerdictUnknown = "unknown" // could not be found out, or means nothing
	VerdictNone    = "none"    // there is nothing to ask
)

func failed(err error) *Verdict {
	return &Verdict{VerdictFailed, oneLine(err.Error()), images.CauseOf(err, "")}
}

// String is the cell of a table: a failure stands out, and an answer that means nothing is empty.
func (v *Verdict) String() string {
	if v == nil || v.State == VerdictNone {
		return ""
	}
	return strings.Replace(v.State, VerdictFailed, "FAILED", 1)
}

// SharedCauses are the causes of failures that hit several pairs.
func SharedCauses(rows []Checked) []images.Cause {
	var all []images.Cause
	for _, row := range rows {
		for _, v := range row.Verdicts() {
			if v.Cause != "" {
				all = images.AddCause(all, v.Cause, row.Tag+" "+row.Arch)
			}
		}
	}
	return slices.DeleteFunc(all, func(c images.Cause) bool { return len(c.Targets) < 2 })
}

// Note gives the reasons of a pair's states. In place of a cause that is shared stands its number,
// which counts from 1.
func (c *Checked) Note(shared []images.Cause) string {
	if c.Excluded != "" {
		return "excluded: " + c.Excluded
	}
	var notes []string
	for _, v := range c.Verdicts() {
		text := v.Detail
		n := slices.IndexFunc(shared, func(one images.Cause) bool { return one.Text == v.Cause })
		if n >= 0 {
			text = fmt.Sprintf("cause %d", n+1)
		}
		if v.State != VerdictOK && text != "" && !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	if c.Headers != nil && c.Headers.State == VerdictOK {
		notes = append(notes, c.Headers.Detail)
	}
	if c.Image != nil && c.Image.State != Missing && c.Image.Why != "" {
		notes = append(notes, "image: "+c.Image.Why)
	}
	return strings.Join(notes, "; ")
}

// BrokenError returns an error if pairs are broken. It wraps [images.ErrSomeFailed].
func BrokenError(rows []Checked) error {
	broken := 0
	checked := 0
	for _, row := range rows {
		if row.Broken {
			broken++
		}
		if row.Excluded == "" {
			checked++
		}
	}
	if broken == 0 {
		return nil
	}
	const format = "%d of %d pairs cannot be built: %w"
	return fmt.Errorf(format, broken, checked, images.ErrSomeFailed)
}
