package rpmfile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// ordered lists versions: each line is newer than the one before, and the versions of one line are equal. The
// order is that of librpm 4.18, whose rpm.vercmp was asked for all of them and for 20000 random pairs.
var ordered = [][]string{
	{"~"},
	{"~1"},
	{"", "."},
	{"^"},
	{"a~"},
	{"a", "a.", ".a"},
	{"a^"},
	{"aa"},
	{"b"},
	{"0", "00", "0.", "0_"},
	{"0a"},
	{"0.0"},
	{"1.0~rc1"},
	{"1.0~rc1^git1"},
	{"1.0~rc2"},
	{"1.0", "1_0", "1.00", "1..0", "01.0", "1-0", "1+0", "1.0é", "1.0š"},
	{"1.0^"},
	{"1.0^20160101~p"},
	{"1.0^20160101"},
	{"1.0^20160102"},
	{"1.0a"},
	{"1.0.0"},
	{"1.0.1"},
	{"1.1"},
	{"2.0.1a"},
	{"2.0.1.1"},
	{"5.5p1", "5.5p.1"},
	{"5.5p10"},
	{"10"},
	{"10.1xyz"},
	{"99999999999999999999"},
	{"100000000000000000000"},
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for i, line := range ordered {
		for j, other := range ordered {
			for _, a := range line {
				for _, b := range other {
					assert.Equalf(t, cmp.Compare(i, j), CompareVersions(a, b), "CompareVersions(%q, %q)", a, b)
				}
			}
		}
	}
}

func TestParseEVR(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]EVR{
		"1":                     {"", "1", ""},
		"1-2":                   {"", "1", "2"},
		"0:1-2":                 {"0", "1", "2"},
		"3:1.0~rc1-0.1^git":     {"3", "1.0~rc1", "0.1^git"},
		":1":                    {"0", "1", ""},
		"1-2-3":                 {"", "1-2", "3"},
		"a:1":                   {"", "a:1", ""}, // for rpm, an epoch consists of digits
		"5.14.0-427.13.1.el9_4": {"", "5.14.0", "427.13.1.el9_4"},
	} {
		got, err := ParseEVR(text)
		if err != nil || got != want {
			t.Errorf("ParseEVR(%q) = %#v, %v; want %#v", text, got, err, want)
		}
		if text[0] != ':' && got.String() != text {
			t.Errorf("String of %q is %q", text, got.String())
		}
	}
	for _, text := range []string{"", "-", "1-", "1:", "1:-2", "1 2", "1\t", "1\x00", "99999999999:1", strings.Repeat("1", 2000)} {
		assert.ErrorIsf(t, assert.Err(ParseEVR(text)), ErrFormat, "ParseEVR(%.20q)", text)
	}
}

func relation(t testing.TB, text string) Relation {
	t.Helper()
	r, err := ParseRequirement(text)
	if err != nil || r.Operator != "" {
		t.Fatalf("%q: %v, %v", text, r, err)
	}
	return r.Relation
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, have string
		ok         bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a = 1-1", true},
		{"a >= 1", "a", true},
		{"a = 1", "a = 1-5", true},
		{"a = 1-4", "a = 1-5", false},
		{"a = 1-5", "a = 1", true},
		{"a > 1", "a = 1-5", false}, // without a release in the requirement, every release of 1 counts as 1
		{"a < 1", "a = 1-5", false},
		{"a >= 1", "a = 1-5", true},
		{"a > 1-4", "a = 1-5", true},
		{"a < 1-4", "a = 1", true},
		{"a = 1", "a = 0:1-1", true},
		{"a = 1:1", "a = 1", false},
		{"a >= 2", "a = 1:1", true},
		{"a < 2", "a = 1:1", false},
		{"a >= 2", "a > 1", true},
		{"a >= 2", "a < 2", false},
		{"a >= 2", "a <= 2", true},
		{"a > 2", "a <= 2", false},
		{"a < 2", "a < 1", true},
		{"a > 2", "a > 5", true},
		{"a <= 1.0~rc1", "a = 1.0", false},
		{"a >= 1.0", "a = 1.0^git", true},
		{"kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64", "kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64", true},
		{"kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64", "kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64+debug", false},
	} {
		assert.Equalf(t, c.ok, relation(t, c.want).Matches(relation(t, c.have)), "%q met by %q", c.want, c.have)
	}
}

func TestParseRequirement(t *testing.T) {
	t.Parallel()
	leaf := func(text string) Requirement { return Requirement{Relation: relation(t, text)} }
	rich := func(kind string, parts ...Requirement) Requirement { return Requirement{Operator: kind, Parts: parts} }
	for text, want := range map[string]Requirement{
		"gcc":                           {Relation: Relation{Name: "gcc"}},
		" gcc ":                         leaf("gcc"),
		"glibc >= 2.17":                 {Relation: Relation{"glibc", ">=", EVR{Version: "2.17"}}},
		"glibc == 1:2.17-3":             {Relation: Relation{"glibc", "=", EVR{"1", "2.17", "3"}}},
		"/usr/bin/perl":                 leaf("/usr/bin/perl"),
		"libc.so.6(GLIBC_2.4)(64bit)":   leaf("libc.so.6(GLIBC_2.4)(64bit)"),
		"font(:lang=en)":                leaf("font(:lang=en)"),
		"(a)":                           leaf("a"),
		"(a and b)":                     rich("and", leaf("a"), leaf("b")),
		"(a or b >= 2 or c)":            rich("or", leaf("a"), leaf("b >= 2"), leaf("c")),
		"(lib(x)(64bit) if kernel < 5)": rich("if", leaf("lib(x)(64bit)"), leaf("kernel < 5")),
		"(a if b else c)":               rich("if", leaf("a"), leaf("b"), leaf("c")),
		"(a unless b else (c and d))":   rich("unless", leaf("a"), leaf("b"), rich("and", leaf("c"), leaf("d"))),
		"(a with a(b) >= 1 with a < 2)": rich("with", leaf("a"), leaf("a(b) >= 1"), leaf("a < 2")),
		"((a and b) without c)":         rich("without", rich("and", leaf("a"), leaf("b")), leaf("c")),
		"(crate(log/default) >= 0.4 with crate(log/default) < 0.5~)": rich("with", leaf("crate(log/default) >= 0.4"), leaf("crate(log/default) < 0.5~")),
	} {
		got, err := ParseRequirement(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		assert.Samef(t, want, got, "%q", text)
		again, err := ParseRequirement(got.String())
		if err != nil || gocmp.Diff(got, again) != "" {
			t.Errorf("%q: its text %q reads as %v, %v", text, got, again, err)
		}
	}
}

func TestParseRequirementMistakes(t *testing.T) {
	t.Parallel()
	for text, word := range map[string]string{
		"":                             "no name",
		"  ":                           "no name",
		"gcc>=4":                       "blanks around",
		"gcc >= ":                      "no version",
		"gcc >= 1 2":                   "follows its end",
		"gcc make":                     "follows its end",
		"(a":                           "not closed",
		"(a and":                       "no name",
		"(a and )":                     "no name",
		"()":                           "no name",
		"a)":                           "follows its end",
		"(a b)":                        "want and, or",
		"(a and b or c)":               "more brackets",
		"(a if b if c)":                "more brackets",
		"(a without b without c)":      "more brackets",
		"(a and b else c)":             "more brackets",
		"(a if b else c else d)":       "more brackets",
		"(a else b)":                   "want and, or",
		"lib(x":                        "not closed",
		"a\x01b":                       "control character",
		strings.Repeat("(", 100) + "a": "more than 32 brackets",
		strings.Repeat("a", 20000):     "longer than",
	} {
		if r, err := ParseRequirement(text); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), word) {
			t.Errorf("ParseRequirement(%.30q) = %v, %v; want ErrFormat with %q", text, r, err, word)
		}
	}
}

func FuzzParseEVR(f *testing.F) {
	for _, line := range ordered {
		for _, s := range line {
			f.Add(s, "1:2-3")
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errA := ParseEVR(a)
		y, errB := ParseEVR(b)
		if Compare(x, y) != -Compare(y, x) || CompareVersions(a, b) != -CompareVersions(b, a) || CompareVersions(a, a) != 0 {
			t.Fatalf("%q and %q are not ordered", a, b)
		}
		if errA != nil || errB != nil || a[0] == ':' {
			return
		}
		if again, err := ParseEVR(x.String()); err != nil || again != x {
			t.Fatalf("%q: %v, again %v, %v", a, x, again, err)
		}
		all := []EVR{x, y, {"", "1.0", "1"}}
		slices.SortFunc(all, Compare)
		if Compare(all[0], all[2]) > 0 {
			t.Fatalf("not transitive: %v", all)
		}
	})
}

func FuzzParseRequirement(f *testing.F) {
	for _, s := range []string{"gcc", "glibc >= 2.17", "(a if b else c)", "((a and b >= 1:2-3) without c(d)(e))", "/usr/bin/perl", "(", "(a with b with c)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRequirement(s)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again, err := ParseRequirement(r.String())
		if err != nil || gocmp.Diff(r, again) != "" {
			t.Fatalf("%q is %q, which is %q: %v", s, r, again, err)
		}
	})
}
