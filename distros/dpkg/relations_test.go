package dpkg

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestParseRelations(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // field -> its relations
		"":                                 "",
		" , ":                              "",
		"libc6":                            "libc6",
		"libc6 (>= 2.34), gcc-12":          "libc6 (>= 2.34), gcc-12",
		"libc6(>=2.34)|musl,x":             "libc6 (>= 2.34) | musl, x",
		"a:any (>> 1:2-3), b:native":       "a:any (>> 1:2-3), b:native",
		"a (<< 1)\n , b\t(= 2)\n":          "a (<< 1), b (= 2)",
		"a (< 1), b (> 2), c (3)":          "a (<= 1), b (>= 2), c (= 3)",
		"libstdc++6, g++-12, 0ad, lib-2.0": "libstdc++6, g++-12, 0ad, lib-2.0",
	}
	for in, want := range tests {
		got, err := ParseRelations(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseRelations(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	got, err := ParseRelations("a:any (>= 1) | b, c")
	want := Relations{{{"a", "any", ">=", "1"}, {Name: "b"}}, {{Name: "c"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestParseRelationsErrors(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"|", "a |", "a | | b", "a b", "a (", "a (>= 1", "a (>= )", "a ()", "a (=> 1)", "a (>= 1 2)", "a (>= 1) (<< 2)", "a [amd64]", "a <!nocheck>",
		"(>= 1)", "a:", "a:b:c", "a: any", "-a", "ä", "a!", "a (>= 1) x", "${misc:Depends}",
	} {
		assert.ErrorIsf(t, assert.Err(ParseRelations(in)), ErrFormat, "ParseRelations(%q)", in)
	}
	assert.ErrorIsf(t, assert.Err(ParseRelations(strings.Repeat("a,", maxRelations+1))), ErrFormat, "too many")
}

func TestRelationMatches(t *testing.T) {
	t.Parallel()
	for op, want := range map[string][3]bool{ // results for an older, an equal and a newer version
		"": {true, true, true}, "<<": {true, false, false}, "<=": {true, true, false}, "=": {false, true, false}, ">=": {false, true, true}, ">>": {false, false, true},
	} {
		r := Relation{Name: "x", Op: op, Version: "2.0"}
		assert.Equalf(t, want, [3]bool{r.Matches("2.0~rc1"), r.Matches("2.0-0"), r.Matches("2.0-1")}, "(%s 2.0)", op)
	}
}

func FuzzRelations(f *testing.F) {
	for _, s := range []string{"a (>= 1) | b:any, c", "a [!x", "("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := ParseRelations(in)
		if err != nil {
			return
		}
		again, err := ParseRelations(got.String())
		if err != nil || !cmp.Equal(got, again) {
			t.Errorf("%q became %q, which reads as %q, %v", in, got, again, err)
		}
	})
}
