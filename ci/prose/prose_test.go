package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// long is a sentence of n words, ten columns each.
func long(n int) string { return strings.TrimSpace(strings.Repeat("ninechars ", n)) }

func TestKinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "lint")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600))
	plain := filepath.Join(dir, "LICENSE")
	require.NoError(t, os.WriteFile(plain, []byte("Apache\n"), 0o600))
	for name, want := range map[string]kind{
		"node/stop.go": goSource, "docs/ci.md": markdown, "Makefile": hash, "matrix.yaml": hash, script: hash, plain: none,
		"deploy/chart/templates/_env.tpl": template, "deploy/chart/templates/rbac.yaml": template, "deploy/chart/values.yaml": hash,
		"ci/templates/github.yaml": hash, "deploy/chart/templates/NOTES.txt": template,
		"images/testdata/x.go": none, "go.sum": none, "deploy/manifests/full.yaml": none,
	} {
		assert.Equalf(t, want, kindOf(name), "kindOf(%s)", name)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		kind    kind
		content string
		want    []string // "LINE: beginning of the text"
	}{
		{"a comment of 110 columns", goSource, "package p\n\n// " + strings.Repeat("a ", 53) + "a\n", nil},
		{"one of more", goSource, "package p\n\n// " + long(11) + "\n", []string{"3: a comment line has 112 columns"}},
		{"a tab is one column", goSource, "package p\n\nfunc f() {\n\t// " + strings.Repeat("a ", 53) + "\n}\n", nil},
		{"in a string", goSource, "package p\n\nconst c = `\n// " + long(20) + "\n`\n", nil},
		{"behind code", goSource, "package p\n\nvar v int // " + long(12) + "\n", nil},
		{"far behind code", goSource, "package p\n\nvar v int // " + long(16) + "\n", []string{"3: a line with a comment at its end has 172"}},
		{"between stars", goSource, "package p\n\n/*\n" + long(12) + "\n*/\n", []string{"4: a comment line has 119"}},
		{"a directive", goSource, "package p\n\n//go:embed " + long(12) + "\nvar v int //nolint:gosec // anew " + long(16) + "\n", nil},
		{"an address", goSource, "package p\n\n// https://example.com/" + strings.Repeat("a", 120) + "\n", nil},
		{"a script", hash, "#!/bin/sh\n# " + long(12) + "\nx='# " + long(12) + "'\n", []string{"2: a comment line has 121"}},
		{"shellcheck", hash, "# shellcheck disable=SC2086 # " + long(12) + "\n", nil},
		{"a phrase", goSource, "package p\n\n// All but for one.\n", []string{`3: "but for": write "except"`}},
		{"in code only", goSource, "package p\n\nvar v = \"all but for one\"\n", nil},
		{"over a line break", goSource, "package p\n\n// All but\n// for one, made\n// anew.\n", []string{`3: "but for"`, `4: "made anew"`}},
		{"over a gap", goSource, "package p\n\n// All but\n\n// for one.\n", nil},
		{"as its own word", goSource, "package p\n\n// The manewal.\n", nil},
		{"Markdown", markdown, "All but for one.\n\nWhoever\nasks.\n", []string{`1: "but for"`, `3: "Whoever"`}},
		{"a message", markdown, "The message `all but for one` and\n\n    all but for one\n\n```\nanew\n```\n\nanew\n", []string{`9: "anew"`}},
		{"examples", markdown, "<!-- prose: off -->\nanew\n<!-- prose: on -->\nanew\n", []string{`4: "anew"`}},
		{"a template", template, "{{/* All but for one. */}}\n", []string{`1: "but for"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found := check(test.kind, []byte(test.content))
			if len(found) != len(test.want) {
				t.Fatalf("found %v, want %q", found, test.want)
			}
			for i, f := range found {
				if got := fmt.Sprintf("%d: %s", f.line, f.text); !strings.HasPrefix(got, test.want[i]) {
					t.Errorf("found %s, want %s", got, test.want[i])
				}
			}
		})
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	head := "package p\n\n"
	tests := []struct {
		name          string
		kind          kind
		content, want string // want is "" where nothing changes
	}{
		{"a paragraph", goSource, head + "// " + long(12) + "\n// tail of it.\nvar v int\n",
			head + "// " + long(10) + "\n// " + long(2) + " tail of it.\nvar v int\n"},
		{"with its indentation", goSource, head + "func f() {\n\t// " + long(12) + "\n}\n",
			head + "func f() {\n\t// " + long(10) + "\n\t// " + long(2) + "\n}\n"},
		{"a paragraph is not joined with the next", goSource, head + "// " + long(12) + "\n//\n// Next.\nvar v int\n",
			head + "// " + long(10) + "\n// " + long(2) + "\n//\n// Next.\nvar v int\n"},
		{"a short line ends one", goSource, head + "// " + long(3) + "\n// " + long(12) + "\nvar v int\n",
			head + "// " + long(3) + "\n// " + long(10) + "\n// " + long(2) + "\nvar v int\n"},
		{"items of a list", goSource, head + "// List:\n//   - " + long(12) + "\n//     more\n//   - two\nvar v int\n",
			head + "// List:\n//   - " + long(10) + "\n//     " + long(2) + " more\n//   - two\nvar v int\n"},
		{"a line does not begin with what would be a list", goSource, head + "// " + long(10) + " abcdefg - " + long(2) + "\nvar v int\n",
			head + "// " + long(10) + "\n// abcdefg - " + long(2) + "\nvar v int\n"},
		{"not one word alone", goSource, head + "// " + long(11) + "\nvar v int\n",
			head + "// " + long(9) + "\n// " + long(2) + "\nvar v int\n"},
		{"blanks of a quotation", goSource, head + "// " + long(10) + " abcdef  b\nvar v int\n",
			head + "// " + long(10) + "\n// abcdef  b\nvar v int\n"},
		{"indented code", goSource, head + "// Text:\n//\n//\t" + long(12) + "\nvar v int\n", ""},
		{"a directive", goSource, head + "// Text.\n//\n//go:generate " + long(12) + "\nvar v int\n", ""},
		{"behind code", goSource, head + "var v int // " + long(12) + "\n", ""},
		{"a string", goSource, head + "const c = `\n// " + long(12) + "\n`\n", ""},
		{"columns", goSource, head + "// a      " + long(12) + "\nvar v int\n", ""},
		{"narrow", goSource, head + "// " + long(8) + "\n// a\nvar v int\n", ""},
		{"a script", hash, "#!/bin/sh\n# " + long(12) + "\n# usage: x\necho\n",
			"#!/bin/sh\n# " + long(10) + "\n# " + long(2) + "\n# usage: x\necho\n"},
		{"a ruled line", hash, "# --- part " + strings.Repeat("-", 110) + "\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := test.want
			if want == "" {
				want = test.content
			}
			got, err := wrapFile(test.kind, []byte(test.content))
			if err != nil || string(got) != want {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, want)
			}
			if again, err := wrapFile(test.kind, got); err != nil || !slices.Equal(again, got) {
				t.Errorf("a second time: %v\n%s", err, again)
			}
		})
	}
}

// TestRun wraps a file, checks it, and wants it to keep its mode.
func TestRun(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "x.go")
	require.NoError(t, os.WriteFile(name, []byte("package p\n\n// All but for "+long(12)+"\nvar v int // "+long(16)+"\n"), 0o600))
	var out strings.Builder
	if n, err := run(&out, []string{name}, true); n != 1 || err != nil || !strings.Contains(out.String(), "x.go:5: a line with") {
		t.Errorf("wrap: %d findings, %v: %s", n, err, out.String())
	}
	out.Reset()
	if n, err := run(&out, []string{name}, false); n != 2 || err != nil || !strings.Contains(out.String(), `x.go:3: "but for"`) {
		t.Errorf("check: %d findings, %v: %s", n, err, out.String())
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
