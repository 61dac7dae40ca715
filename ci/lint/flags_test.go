package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// helps are the help texts of all commands, except driver-probe, which has no flags but
// --usage and --version.
var helps = []string{"../../cmd/driver-build/testdata/help-*.txt", "../../cmd/driver-entrypoint/testdata/help-*.txt"}

// flag is a flag as a help text shows it.
type flag struct {
	help, name, letter, kind, usage string
}

var (
	line   = regexp.MustCompile(`^ +(?:-(\w), )?--([a-z][a-z0-9-]*)(?: (\S+))?  +(\S.*)$`)
	folded = regexp.MustCompile(`\n {12,}`)
	detail = regexp.MustCompile(` \((?:default|env)[^)]*\)+$`)
)

// meanings are what flags mean that commands describe in different words: every description matches. The
// other flags have one description.
var meanings = map[string]string{
	"arch":          `ARCH`,
	"base":          `base IMAGE`,
	"chart":         `chart to `,
	"deep":          `layers|also compile`, // look closer, which takes longer
	"driver":        `driver VERSION`,
	"dry-run":       `(build|write|push) nothing$`,
	"export":        `^write into DIR what an offline signer`,
	"format":        `^(what is printed: )?(table|spdx|text).* or [a-z]+$`,
	"from":          `^IMAGE `,
	"headers":       `mirror with .*headers`,
	"help":          `^help for`,
	"image-key":     `^sign .* with this private key: FILE`,
	"inputs":        `the inputs of builds`,
	"into":          `folder`,
	"kernel":        `(?i)release`,
	"key":           `^FILE with public keys or certificates`,
	"lock":          `^lock to go by|^FILE to write`,
	"matrix":        `^FILE with the (version )?matrix`,
	"os":            `SYSTEM`,
	"output":        `^oci:DIR|^FILE to write|^DIR to write`,
	"pod":           `name of this pod`,
	"pod-namespace": `namespace`,
	"pod-uid":       `uid`,
	"node-name":     `name of this node`,
	"push":          `^push to the repository`,
	"repository":    `^REGISTRY/PATH`,
	"run-dir":       `folder`,
	"sbom":          `^attach `,
	"module-cert":   `certificate`,
	"modules":       `modules`,
	"source":        `URL or FILE of the driver's`,
	"tag":           `TAG`,
	"timeout":       `so long|how long`,
	"values":        `values (for|of) the chart`,
}

// lists are flags whose value differs: once or repeated, or another kind of file.
var lists = []string{"arch", "base", "driver", "kernel", "headers", "output", "redist", "repository", "module-cert", "modules", "sbom", "inputs"}

// TestOneMeaning: a flag has the same type, the same letter and the same meaning wherever it is, and a letter
// stands for one flag.
func TestOneMeaning(t *testing.T) {
	t.Parallel()
	first, letters := map[string]flag{}, map[string]flag{}
	used := map[string]bool{}
	for _, f := range flags(t) {
		if l, ok := letters[f.letter]; ok && f.letter != "" && l.name != f.name {
			t.Errorf("-%s is --%s in %s, and --%s in %s", f.letter, l.name, l.help, f.name, f.help)
		}
		letters[f.letter] = f
		meaning, described := meanings[f.name]
		if described && !regexp.MustCompile(meaning).MatchString(f.usage) {
			t.Errorf("--%s in %s is %q, which does not match %q: it has another meaning", f.name, f.help, f.usage, meaning)
		}
		before, ok := first[f.name]
		if !ok {
			first[f.name] = f
			continue
		}
		if f.usage != before.usage {
			used[f.name] = true
			if !described {
				t.Errorf("--%s is %q in %s, and %q in %s: give it another name, or one line in meanings", f.name, before.usage, before.help, f.usage, f.help)
			}
		}
		assert.Equalf(t, before.letter, f.letter, "the letter of --%s in %s, as in %s", f.name, f.help, before.help)
		if f.kind != before.kind && !slices.Contains(lists, f.name) {
			t.Errorf("--%s is of type %s in %s, and %s in %s", f.name, before.kind, before.help, f.kind, f.help)
		}
	}
	for name := range meanings {
		assert.Equalf(t, true, used[name], "--%s has different descriptions and needs its line in meanings", name)
	}
	if len(first) < 120 {
		t.Errorf("only %d flags were found", len(first))
	}
}

// flags reads the help texts. The flags of every command are in one of them.
func flags(t *testing.T) (all []flag) {
	t.Helper()
	for _, pattern := range helps {
		files := require.Value(filepath.Glob(pattern))(t)
		if len(files) == 0 {
			t.Fatalf("%s: no such files", pattern)
		}
		for _, file := range files {
			if filepath.Base(file) == "help-driver-build.txt" { // a part of what build has, in other words
				continue
			}
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "help-"), ".txt")
			for text := range strings.Lines(folded.ReplaceAllString(string(require.Value(os.ReadFile(file))(t)), "  ")) {
				m := line.FindStringSubmatch(strings.TrimRight(text, "\n"))
				if m == nil {
					continue
				}
				kind, _, _ := strings.Cut(m[3], "[") // [="spdx"]: the value without one
				usage := strings.Join(strings.Fields(m[4]), " ")
				for detail.MatchString(usage) {
					usage = detail.ReplaceAllString(usage, "")
				}
				all = append(all, flag{name, m[2], m[1], kind, usage})
			}
		}
	}
	return all
}
