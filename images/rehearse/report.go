package rehearse

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/distros/failure"
)

// Verdict is the result of a row.
type Verdict string

// Verdicts.
const (
	OK      Verdict = "ok"
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped" // the message says why
)

// Row is one thing that was rehearsed.
type Row struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"` // ok, failed or skipped
	Seconds float64 `json:"seconds"` // that it took here
	Message string  `json:"message"`
	// lines of the kernel and of the driver's container that say why it failed
	Log []string `json:"log,omitempty"`
}

// ReportSchema is the version of the shape of a Report as JSON.
const ReportSchema = 1

// Report is what a rehearsal showed.
type Report struct {
	Schema   int    `json:"schema"` // version of this shape: 1
	Image    string `json:"image"`
	Digest   string `json:"digest,omitempty"`
	Driver   string `json:"driver,omitempty"`   // "" if the image does not say
	Previous string `json:"previous,omitempty"` // the image that this one takes the place of
	System   string `json:"system"`             // whose kernel it is
	Kernel   string `json:"kernel"`             // release of the kernel
	// the packages that the kernel and the guest's programs were made of, with their digests
	Packages   []Package `json:"packages,omitempty"`
	SecureBoot bool      `json:"secureBoot"`
	// Emulated says that the machine had no KVM: times are those of an emulated processor, ten times
	// a node's and more.
	Emulated bool     `json:"emulated"`
	Passed   bool     `json:"passed"`          // no row failed
	Notes    []string `json:"notes,omitempty"` // what was not rehearsed as it was asked for
	Rows     []Row    `json:"rows"`
}

// Package is a package of a system.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// ErrFailed means that a row failed.
var ErrFailed = failure.New(failure.Content, "the rehearsal failed")

// Err returns ErrFailed with the names of the rows that failed, if any did.
func (r *Report) Err() error {
	var failed []string
	for _, row := range r.Rows {
		if row.Verdict == Failed {
			failed = append(failed, row.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrFailed, strings.Join(failed, ", "))
}

// The guest is not trusted: what it says is cut and cleaned before it gets into a report.
const (
	maxMessage = 2000 // bytes
	maxLine    = 300  // bytes
	maxLines   = 20   // of the kernel or of a container, in a row
)

// message makes one line of a text of the guest.
func message(text string) string {
	text = escape.Line(strings.Join(strings.Fields(text), " "))
	return cut(text, maxMessage)
}

// last returns the last lines of many.
func last(lines []string) []string { return lines[max(0, len(lines)-maxLines):] }

// logLines makes lines of a report out of lines of the guest.
func logLines(lines []string) []string {
	var cleaned []string
	for _, line := range lines {
		cleaned = append(cleaned, cut(escape.Line(line), maxLine))
	}
	return cleaned
}

// cut cuts a text, whose last character may be a broken one then.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
