package probe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/driver-container/driver-container/node/daemons"
)

// ErrLost says that a GPU does not answer any more; the Answer has the others.
var ErrLost = errors.New("a GPU has fallen off the bus; the node needs a restart")

var (
	errNoDriver  = errors.New("the kernel driver does not answer: it is not loaded, or it found no GPU that it can serve")
	errNoLibrary = errors.New("libnvidia-ml.so.1 is missing in the image")
	errMismatch  = errors.New("the libraries of this image and the loaded kernel driver are of different versions")
	errOther     = errors.New("the driver answered with an error")
)

// Exit codes of nvidia-smi: its manual page, section RETURN VALUE. Code 18 is not in it; it was observed with
// a library that is newer than the kernel module.
const (
	smiOK        = 0
	smiNoDevices = 6
	smiOffTheBus = 15
)

var smiErrors = map[int]error{9: errNoDriver, 12: errNoLibrary, smiOffTheBus: ErrLost, 18: errMismatch}

func smiError(r daemons.Result) error {
	return fmt.Errorf("%w (%s, exit code %d: %s)", cmp.Or(smiErrors[r.Code], errOther), SourceSMI, r.Code, lastLine(append(r.Stdout, r.Stderr...)))
}

// failure returns what the driver's text in a.Err means. nvidia-smi prints NVML's text for a single GPU.
func (a Answer) failure() error {
	if a.Err == "" {
		return nil
	}
	found := errOther
	for text, err := range map[string]error{
		"driver not loaded": errNoDriver, "library_not_found": errNoLibrary, "library not found": errNoLibrary, "version mismatch": errMismatch, "gpu is lost": ErrLost,
	} {
		if strings.Contains(strings.ToLower(a.Err), text) {
			found = err
		}
	}
	return fmt.Errorf("%w (%s: %s)", found, a.Source, a.Err)
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
