package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// errors.Is finds these errors in a *DriverError.
var (
	ErrNoDriver  = errors.New("the kernel driver does not answer: it is not loaded, or it found no GPU that it can serve")
	ErrNoLibrary = errors.New("libnvidia-ml.so.1 is missing in the image")
	ErrMismatch  = errors.New("the libraries of this image and the loaded kernel driver are of different versions")
	ErrLost      = errors.New("a GPU has fallen off the bus; the node needs a restart")
)

// DriverError says that the driver answered with an error or incompletely. Text is the text of the driver.
type DriverError struct {
	Source string // SourceProbe, SourceSMI
	Code   int    // exit code of nvidia-smi, 0 of driver-probe
	Text   string
	kind   error
}

func (e *DriverError) Error() string {
	what := "the driver answered with an error"
	if e.kind != nil {
		what = e.kind.Error()
	}
	if e.Code != 0 {
		return fmt.Sprintf("%s (%s, exit code %d: %s)", what, e.Source, e.Code, e.Text)
	}
	return fmt.Sprintf("%s (%s: %s)", what, e.Source, e.Text)
}

// Unwrap returns the sentinel error, or nil when the error is not one of the known ones.
func (e *DriverError) Unwrap() error { return e.kind }

// Exit codes of nvidia-smi: its manual page, section RETURN VALUE. Code 18 is not in it; it was observed with
// a library that is newer than the kernel module.
const (
	smiOK        = 0
	smiNoDevices = 6
	smiOffTheBus = 15
)

var smiKinds = map[int]error{9: ErrNoDriver, 12: ErrNoLibrary, smiOffTheBus: ErrLost, 18: ErrMismatch}

func smiError(r result) error {
	return &DriverError{Source: SourceSMI, Code: r.code, Text: lastLine(append(r.stdout, r.stderr...)), kind: smiKinds[r.code]}
}

// failure maps the text of NVML in a.Err to an error. nvidia-smi prints the same text for a single GPU.
func (a Answer) failure() error {
	if a.Err == "" {
		return nil
	}
	e := &DriverError{Source: a.Source, Text: a.Err}
	for _, k := range []struct {
		text string
		kind error
	}{
		{"driver not loaded", ErrNoDriver},
		{"library_not_found", ErrNoLibrary},
		{"library not found", ErrNoLibrary},
		{"version mismatch", ErrMismatch},
		{"gpu is lost", ErrLost},
	} {
		if strings.Contains(strings.ToLower(a.Err), k.text) {
			e.kind = k.kind
		}
	}
	return e
}

// lastLine returns the last line that has text, without control characters and of limited length, because it
// goes to logs.
func lastLine(text []byte) string {
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if s := clean(line); s != "" {
			return s
		}
	}
	return "no output"
}

func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), 300)], ""))
}
