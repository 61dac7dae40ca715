package kmsg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestSyslog(t *testing.T) {
	t.Parallel()
	before := "<6>[    1.000000] before\n<4>[    2.000000] NVRM: last\n"
	after := "<3>[   50.123456] NVRM: The NVIDIA Tesla K80 GPU installed in this system is\n<3>[   50.123456] NVRM:  supported through the NVIDIA 470.xx Legacy drivers.\n" +
		"<30>[   51.000000] systemd[1]: not the kernel\ngarbage\n<x>y\n<6>[   52.0][    T1] with its caller\n<5>without a time\n<5>[drm] a word\n"
	want := []string{"NVRM: The NVIDIA Tesla K80 GPU installed in this system is", "NVRM:  supported through the NVIDIA 470.xx Legacy drivers.",
		"with its caller", "without a time", "[drm] a word"}
	assert.Equalf(t, "", sinceTail(before, syslogTail(before)), "before anything was logged")
	assert.Same(t, want, parseSyslog(sinceTail(before+after, syslogTail(before))))
	if got := sinceTail(after, syslogTail(before)); got != after { // the log was overwritten in between
		t.Errorf("%q", got)
	}
	var many strings.Builder
	for i := range 2 * maxKmsgLines {
		fmt.Fprintf(&many, "<6>[%5d.0] line %d\n", i, i)
	}
	if got := parseSyslog(many.String()); len(got) != maxKmsgLines || got[maxKmsgLines-1] != fmt.Sprintf("line %d", 2*maxKmsgLines-1) {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

// The kernel's own answer has the expected form.
func TestSyslogOfThisKernel(t *testing.T) {
	t.Parallel()
	text, err := readSyslog()
	if err != nil {
		t.Skip(err)
	}
	if len(parseSyslog(text)) == 0 && strings.Contains(text, "<6>") {
		t.Errorf("nothing was understood of %.300q", text)
	}
}

func FuzzSyslog(f *testing.F) {
	f.Add("<6>[    1.000000] before\n<30>x\n", "before\n")
	f.Fuzz(func(t *testing.T, text, tail string) {
		for _, line := range parseSyslog(sinceTail(text, tail)) {
			if line == "" || len(line) > maxKmsgLine || strings.ContainsAny(line, "\n\x1b") {
				t.Errorf("%q", line)
			}
		}
	})
}
