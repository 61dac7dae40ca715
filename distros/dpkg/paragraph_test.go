package dpkg

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const twoParagraphs = `Package: a
Version:1.0
# a comment, dropped
Description: short
 long
 .
 more
Empty:
Conffiles:
 /etc/a 0123


  ` + `
package: b
Depends: c,
 d`

func readAll(t *testing.T, in string) []Paragraph {
	t.Helper()
	var out []Paragraph
	for p, err := range ReadParagraphs(iotest.OneByteReader(strings.NewReader(in))) {
		require.NoErrorf(t, err, "%q", in)
		out = append(out, p)
	}
	return out
}

func TestReadParagraphs(t *testing.T) {
	t.Parallel()
	got := readAll(t, twoParagraphs)
	if len(got) != 2 {
		t.Fatalf("%d paragraphs; want 2", len(got))
	}
	want := map[string]string{
		"Package": "a", "VERSION": "1.0", "description": "short\n long\n .\n more", "Empty": "", "Missing": "", "Conffiles": "\n /etc/a 0123",
	}
	for name, value := range want {
		assert.Equalf(t, value, got[0].Get(name), "Get(%q)", name)
	}
	_, empty := got[0].Lookup("empty")
	_, missing := got[0].Lookup("Missing")
	assert.Samef(t, []bool{true, false}, []bool{empty, missing}, "an empty field is there, a missing one is not")
	assert.Equalf(t, "package: b\nDepends: c,\n d\n", got[1].String(), "String()")
	for _, in := range []string{"", "\n\n", "# only a comment\n", "#x\n\n#y"} {
		assert.Equalf(t, 0, len(readAll(t, in)), "%q", in)
	}
	if got := readAll(t, "A: 1\r\n\r\nB: 2\r\n"); len(got) != 2 || got[0].Get("A") != "1" || got[1].Get("B") != "2" {
		t.Errorf("with carriage returns: %q", got)
	}
}

func TestReadParagraphsErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // input -> substring of the message
		"no colon\n":                                "line 1",
		"A: 1\n\nB: 2\nC\n":                         "line 4",
		"A: 1\n x\n y\nC\n\nD: 1\n":                 "line 4",
		strings.Repeat("A: 1\n", maxFields+1):       "fields",
		"A: " + strings.Repeat("x", maxParagraph):   "bytes",
		strings.Repeat("A: x\n\n\n", 3) + "\xffx\n": "line 10",
	}
	for in, want := range tests {
		var err error
		for _, err = range ReadParagraphs(strings.NewReader(in)) {
			if err != nil {
				break
			}
		}
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want ErrFormat with %q", in, err, want)
		}
	}
	for p, err := range ReadParagraphs(io.MultiReader(strings.NewReader("A: 1\n"), iotest.ErrReader(io.ErrClosedPipe))) {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v, %v; want the reader's error", p, err)
		}
	}
	for range ReadParagraphs(strings.NewReader(twoParagraphs)) {
		break // must not panic: yield is not called again
	}
}

// TestReadAsApt: what apt's reader takes, with one field A. The forms of repositories in distros/apt ask apt itself.
func TestReadAsApt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in, want string
		dpkg     bool // dpkg takes it in a package as well
	}{
		{"A: 1\n \n 2\n", "1\n \n 2", false},
		{"A: 1\n\t\n\t2\n", "1\n\t\n\t2", false},
		{"A: 1\n \n", "1\n ", false},
		{" x: y\n\tz\nA: 1\n", "1", true},
		{"\n\n x\nA: 1\n", "1", true},
		{"B: 1\nstray\nC: 2\nA: 1\n", "1", false},
		{"B: 1\nstray\nA: 2\n", "", false},
		{"A: 1\nstray\nA: 2\n", "1", false},
		{"A: 1\na: 2\n", "2", false},
		{"A : 1\n", "1", true},
		{"A\t: 1\n", "1", true},
		{"-B: 1\nA: 1\n", "1", false},
		{"\xffB: 1\nA: 1\n", "1", false},
		{":x\nA: 1\n", "1", false},
		{"#B\nA: 1\n", "1", true},
		{"A: 1\r\n 2\r\n", "1\n 2", true},
	} {
		p, err := ParseParagraph([]byte(tt.in))
		assert.NoErrorf(t, err, "%q", tt.in)
		assert.Equalf(t, tt.want, p.Get("A"), "%q", tt.in)
		assert.Equalf(t, tt.dpkg, p.check() == nil, "%q: %v", tt.in, p.check())
		q := p.Set("A", "9")
		assert.Equalf(t, "9", q.Get("A"), "%q", tt.in)
	}
}

func TestParseParagraph(t *testing.T) {
	t.Parallel()
	if p, err := ParseParagraph([]byte("\n\nA: 1\n\n")); err != nil || p.Get("a") != "1" {
		t.Errorf("%v, %v", p, err)
	}
	for _, in := range []string{"", "A: 1\n\nB: 2\n", "x"} {
		assert.ErrorIsf(t, assert.Err(ParseParagraph([]byte(in))), ErrFormat, "ParseParagraph(%q)", in)
	}
}

func TestParagraphChanges(t *testing.T) {
	t.Parallel()
	p := readAll(t, twoParagraphs)[0]
	before := p.String()
	q := p.Set("version", "2").Set("New", "x").Set("List", "\n a\n b").Without("DESCRIPTION", "Nothing", "Conffiles")
	assert.Equal(t, "Package: a\nVersion: 2\nEmpty:\nNew: x\nList:\n a\n b\n", q.String())
	if p.String() != before || p.Get("Version") != "1.0" {
		t.Error("the original changed")
	}
	if (Paragraph{}).Set("A", "1").String() != "A: 1\n" || !(Paragraph{}).Empty() || p.Empty() {
		t.Error("empty paragraph")
	}
	again, err := ParseParagraph([]byte(q.String()))
	if err != nil || again.String() != q.String() || again.Get("List") != "\n a\n b" {
		t.Errorf("read again: %v, %v", again, err)
	}
}

func FuzzParagraphs(f *testing.F) {
	f.Add(twoParagraphs)
	f.Add("A: 1\r\n \r\n\tx\n#\nB:\n")
	f.Add(" x\nA : 1\n \n 2\nstray\n\vB: 1\na: 2\n:\n")
	f.Fuzz(func(t *testing.T, in string) {
		for p, err := range ReadParagraphs(strings.NewReader(in)) {
			if err != nil {
				return
			}
			if _, err := ParseParagraph([]byte(p.String())); err != nil {
				t.Fatalf("%q is not read again: %v", p.String(), err)
			}
			r := render(p.fields)
			if q, err := ParseParagraph([]byte(r.String())); err != nil || !cmp.Equal(p.fields, q.fields, cmp.AllowUnexported(field{})) {
				t.Errorf("rendered %q from %q: %v", r.String(), p.String(), err)
			}
		}
	})
}
