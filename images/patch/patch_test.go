package patch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const source = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"

// diff returns a patch of a file with some hunks.
func diff(name string, hunks ...string) string {
	return "Why.\n\n--- a/" + name + "\n+++ b/" + name + "\n" + strings.Join(hunks, "")
}

const (
	name   = "kernel/nvidia/x.c"
	second = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
	ninth  = "@@ -8,3 +8,4 @@\n eight\n-nine\n+9\n+9.5\n ten\n"
)

func parse(t *testing.T, label, text string) *Patch {
	t.Helper()
	return require.Value(Parse(label, []byte(text), "kernel", "kernel-open"))(t)
}

func TestApply(t *testing.T) {
	t.Parallel()
	both := parse(t, "both", diff(name, second, ninth))
	a, b := parse(t, "a", diff(name, second)), parse(t, "b", "diff --git a/"+name+" b/"+name+"\nindex 1..2 100644\n"+strings.TrimPrefix(diff(name, ninth), "Why.\n\n")+"-- \n2.39\n")
	const want = "one\n2\nthree\nfour\nfive\nsix\nseven\neight\n9\n9.5\nten\n"
	for label, patches := range map[string][]*Patch{"one patch": {both}, "two patches": {a, b}, "the other order": {b, a}} {
		got, err := Apply(patches, name, []byte(source))
		require.NoErrorf(t, err, "%s", label)
		assert.Equalf(t, want, string(got), "%s", label)
	}
	got, err := Apply([]*Patch{both}, "kernel/nvidia/y.c", []byte(source))
	if string(got) != source || err != nil {
		t.Errorf("a file that no patch names: %q %v", got, err)
	}
	fresh := parse(t, "new", "--- /dev/null\n+++ b/kernel/new.h\n@@ -0,0 +1,2 @@\n+a\n+b\n")
	got, err = Apply([]*Patch{fresh}, "kernel/new.h", nil)
	require.NoError(t, err)
	assert.Equal(t, "a\nb\n", string(got))
	assert.Equal(t, "", a.Overlap(b))
}

// TestApplyRefuses: a hunk fits exactly where it says or not at all, and the message says where it would.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct{ patch, text, says string }{
		"other version": {diff(name, second), "one\n2.0\nthree\n",
			`patch p: kernel/nvidia/x.c, hunk 1: line 2 is "2.0\n" and should be "two\n": the patch is for another version`},
		"fits elsewhere":   {diff(name, ninth), "zero\n" + source, `hunk 1: line 8 is "seven\n" and should be "eight\n": the hunk would fit at line 9`},
		"blanks differ":    {diff(name, second), strings.Replace(source, "two", "two ", 1), `line 2 is "two \n" and should be "two\n": the patch is for another version`},
		"CRLF in the file": {diff(name, second), strings.ReplaceAll(source, "\n", "\r\n"), `line 1 is "one\r\n" and should be "one\n"`},
		"done already":     {diff(name, second), strings.Replace(source, "two", "2", 1), `line 2 is "2\n" and should be "two\n": these sources have the change already`},
		"file too short":   {diff(name, ninth), "one\ntwo\n", `line 8 is "" and should be "eight\n": the patch is for another version`},
		"second hunk":      {diff(name, second, ninth), strings.Replace(source, "nine", "IX", 1), `hunk 2: line 9 is "IX\n" and should be "nine\n"`},
		"empty file":       {diff(name, second), "", `line 1 is "" and should be "one\n": the patch is for another version`},
		"no end of line":   {diff(name, ninth), strings.TrimSuffix(source, "\n"), `line 10 is "ten" and should be "ten\n"`},
	} {
		_, err := Apply([]*Patch{parse(t, "p", c.patch)}, name, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", label, err)
		}
	}
	fresh := parse(t, "new", "--- /dev/null\n+++ b/kernel/new.h\n@@ -0,0 +1 @@\n+a\n")
	for _, c := range []struct {
		patches []*Patch
		name    string
		text    []byte
		says    string
	}{
		{[]*Patch{fresh}, "kernel/new.h", []byte("there"), "the sources have such a file"},
		{[]*Patch{parse(t, "p", diff(name, second))}, name, nil, "the sources have no kernel/nvidia/x.c"},
		{[]*Patch{parse(t, "p", diff(name, second)), parse(t, "q", diff(name, "@@ -3,2 +3,2 @@\n three\n-four\n+4\n"))}, name, []byte(source),
			"hunk 1 of patch p and hunk 1 of patch q both have its line 3"},
		{[]*Patch{parse(t, "p", diff(name, second))}, name, make([]byte, MaxSource+1), "4194305 bytes"},
	} {
		_, err := Apply(c.patches, c.name, c.text)
		assert.ErrorContains(t, err, c.says)
	}
}

// TestParseRefuses: what is no exact change of text below the folders.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	git := func(file string, lines ...string) string {
		return "diff --git a/" + file + " b/" + file + "\n" + strings.Join(lines, "\n") + "\n"
	}
	many := &strings.Builder{}
	for i := range maxFiles + 1 {
		many.WriteString(strings.TrimPrefix(diff(fmt.Sprintf("kernel/%d.c", i), second), "Why.\n\n"))
	}
	hunks := &strings.Builder{}
	for i := range maxHunks + 1 {
		fmt.Fprintf(hunks, "@@ -%d +%d @@\n-a\n+b\n", 2*i+1, 2*i+1)
	}
	for label, c := range map[string]struct{ text, says string }{
		"empty":                      {"", "changes 0 files"},
		"prose":                      {"nothing but words\n", "changes 0 files"},
		"out of the tree":            {diff("kernel/../../etc/passwd", second), "is not below"},
		"absolute":                   {"--- /etc/passwd\n+++ /etc/passwd\n" + second, "is not below"},
		"another folder":             {diff("src/x.c", second), "is not below kernel/ or kernel-open/"},
		"the folder itself":          {diff("kernel", second), "is not below"},
		"no prefix":                  {"--- nvidia-535.orig/kernel/x.c\n+++ nvidia-535/kernel/x.c\n" + second, "names begin with a/ and b/"},
		"backslash":                  {diff(`kernel/..\x.c`, second), "is not below"},
		"CRLF":                       {strings.ReplaceAll(diff(name, second), "\n", "\r\n"), "line 1 ends in CR LF"},
		"zero byte":                  {diff(name, "@@ -1 +1 @@\n-one\n+\x00\n"), "zero byte"},
		"binary":                     {git(name, "index 1..2 100644", "GIT binary patch", "literal 1", "IcmZPo000310RR91", "", "literal 1", "IcmZPo000310RR91", ""), "binary"},
		"mode":                       {git(name, "old mode 100644", "new mode 100755"), "no modes"},
		"link":                       {git("kernel/l", "new file mode 120000", "--- /dev/null", "+++ b/kernel/l", "@@ -0,0 +1 @@", "+/etc/passwd", `\ No newline at end of file`), "mode 100644, not 120000"},
		"new program":                {git("kernel/l", "new file mode 100755", "--- /dev/null", "+++ b/kernel/l", "@@ -0,0 +1 @@", "+x"), "mode 100644"},
		"rename":                     {git(name, "similarity index 100%", "rename from kernel/nvidia/x.c", "rename to kernel/nvidia/y.c"), "renames"},
		"deletion":                   {"--- a/kernel/x.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "deletes"},
		"no place":                   {diff(name, "@@ -1,0 +2 @@\n+x\n"), "no line of the file"},
		"hunk without a file":        {second, "without file header"},
		"cut":                        {diff(name, "@@ -1,3 +1,3 @@\n one\n-two\n"), "gitdiff"},
		"count too small":            {diff(name, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n+2.5\n"), "belongs to no hunk"},
		"count too small at the end": {diff(name, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n-three\n"), "belongs to no hunk"},
		"hostile count":              {diff(name, "@@ -1,9223372036854775807 +1,9223372036854775807 @@\n one\n"), "patch p"},
		"hostile line":               {diff(name, "@@ -99999999999999999999 +1 @@\n-a\n+b\n"), "patch p"},
		"the same file twice":        {diff(name, second) + "--- a/" + name + "\n+++ b/" + name + "\n" + ninth, "there twice"},
		"too many files":             {many.String(), "65 files"},
		"too many hunks":             {diff(name, hunks.String()), "more than 512 hunks"},
		"too large":                  {diff(name, second) + strings.Repeat("#", MaxBytes), "too many (at most 262144)"},
	} {
		_, err := Parse("p", []byte(c.text), "kernel", "kernel-open")
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", label, err)
			continue
		}
		if label != "cut" {
			assert.Containsf(t, err.Error(), c.says, "%s", label)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add(diff(name, second, ninth), source)
	f.Add("--- /dev/null\n+++ b/kernel/new.h\n@@ -0,0 +1,2 @@\n+a\n+b\n", "")
	f.Add(diff(name, "@@ -1,9223372036854775807 +1 @@\n one\n"), source)
	f.Fuzz(func(t *testing.T, text, old string) {
		p, err := Parse("p", []byte(text), "kernel")
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v", err)
			}
			return
		}
		for _, file := range p.Files() {
			if !strings.HasPrefix(file, "kernel/") || strings.Contains("/"+file+"/", "/../") {
				t.Errorf("it changes %q", file)
			}
			got, err := Apply([]*Patch{p}, file, []byte(old))
			if err == nil && len(got) > len(old)+len(text) {
				t.Errorf("%q became %q", old, got)
			}
		}
	})
}
