package kmsg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	require.NoError(t, err)
}

func TestMark(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kmsg")
	appendTo(t, path, "6,1,100,-;before\n")
	m := require.Value(Open(path))(t)
	defer m.Close()
	if got := m.Lines(); got != nil {
		t.Errorf("Lines = %q before anything was logged; want none", got)
	}
	appendTo(t, path, "3,2,200,-;NVRM: The NVIDIA Tesla K80 GPU installed in this system is\\x0aNVRM:  supported through the NVIDIA 470.xx Legacy drivers.\\x0a\n"+
		" SUBSYSTEM=pci\n DEVICE=+pci:0000:05:00.0\n"+ // the record's dictionary
		"30,3,300,-;systemd: not the kernel\ngarbage\n4,4,400,-,caller=T1;back\\x5cslash \\x1b[31m\\xc3\\xa4;x\n4,5,5")
	want := []string{"NVRM: The NVIDIA Tesla K80 GPU installed in this system is", "NVRM:  supported through the NVIDIA 470.xx Legacy drivers.",
		`back\slash ?[31mä;x`}
	assert.Samef(t, want, m.Lines(), "Lines (-want +got)")
	appendTo(t, path, "00,-;half a line ago\n")
	assert.Samef(t, append(want, "half a line ago"), m.Lines(), "Lines (-want +got)")
	for i := range 2 * maxKmsgLines {
		appendTo(t, path, fmt.Sprintf("4,5,500,-;line %d\n", i))
	}
	if got := m.Lines(); len(got) != maxKmsgLines || got[maxKmsgLines-1] != fmt.Sprintf("line %d", 2*maxKmsgLines-1) {
		t.Errorf("%d lines, the last %q; want the last %d", len(got), got[len(got)-1], maxKmsgLines)
	}
}

// TestNext: each line comes once.
func TestNext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kmsg")
	appendTo(t, path, "6,1,100,-;before\n")
	m := require.Value(Open(path))(t)
	defer m.Close()
	assert.Equal(t, 0, len(m.Next()))
	appendTo(t, path, "3,2,200,-;one\n3,3,300,-;tw")
	assert.Same(t, []string{"one"}, m.Next())
	appendTo(t, path, "o\n")
	assert.Same(t, []string{"two"}, m.Next())
	assert.Equal(t, 0, len(m.Next()))
	assert.Equal(t, 0, len((*Mark)(nil).Next()))
}

func TestMarkWithoutLog(t *testing.T) {
	t.Parallel()
	m, err := Open(filepath.Join(t.TempDir(), "none"))
	if err == nil || m.Lines() != nil || m.Close() != nil {
		t.Errorf("Mark = %v, %v; want an error and a mark that can be used", m, err)
	}
}

func FuzzKmsg(f *testing.F) {
	f.Add("6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n", 7)
	f.Add("3,2,200,-;NVRM: a\\x0aNVRM: b\\x5c\\x\\xzz\n4,3,", 3)
	f.Add(";;;\n,,,;\n99999999999,1,1;x\n", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole, pieces := &Mark{}, &Mark{}
		whole.take([]byte(text))
		if cut < 1 || len(text) > maxKmsgRecord {
			return
		}
		for rest := text; rest != ""; {
			n := min(cut, len(rest))
			pieces.take([]byte(rest[:n]))
			rest = rest[n:]
		}
		assert.Samef(t, whole.lines, pieces.lines, "other lines when read in pieces of %d (-whole +pieces)", cut)
		for _, l := range whole.lines {
			if l == "" || len(l) > maxKmsgLine || strings.ContainsFunc(l, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("line %q is empty, too long or not printable", l)
			}
		}
	})
}

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
