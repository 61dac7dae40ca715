package apt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

func FuzzRelease(f *testing.F) {
	f.Add([]byte(bookworm + "SHA256:\n " + strings.Repeat("0", 64) + " 12 main/binary-amd64/Packages.gz\n"))
	f.Add([]byte("SHA256: x"))
	f.Add([]byte("Architectures: amd64\narm64\nSHA512:\n " + strings.Repeat("A", 128) + " 12 ./Packages\n\nSuite: x\n"))
	f.Add([]byte("Date: Sat, 20 Jun 2026 10:00:00 UTC\nValid-Until: Sat,  4 Jul 2026 10:00:00 GMT\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRelease(data)
		if err != nil {
			assert.ErrorIs(t, err, distros.ErrIndex)
			return
		}
		for name, s := range r.indexes {
			if s.Size < 0 || len(s.SHA256) != 64 && len(s.SHA512) != 128 {
				t.Errorf("index %q: %+v", name, s)
			}
		}
	})
}

// TestResultIsClosed: for every repository and system, a result has everything that it needs, breaks nothing
// that was whole, has no conflicts, and is the same a second time.
func TestResultIsClosed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := indexOf(t, drawPackages(t, "index", 12))
		st := statusOf(t, drawPackages(t, "status", 4))
		want := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 1, 3).Draw(t, "want")
		got, err := x.Resolve(st, want)
		again, err2 := x.Resolve(st, want)
		if fmt.Sprint(err) != fmt.Sprint(err2) || short(got) != short(again) {
			t.Fatalf("two results: %q %v, %q %v", short(got), err, short(again), err2)
		}
		if err != nil {
			if un := (*distros.UnresolvableError)(nil); !errors.As(err, &un) {
				t.Fatal(err)
			}
			return
		}
		before, after := map[string]dpkg.Paragraph{}, map[string]dpkg.Paragraph{}
		for _, p := range st.Packages() {
			before[p.Get("Package")] = p
		}
		maps.Copy(after, before)
		for _, p := range got {
			if old, ok := before[p.Name]; p.Replaces != old.Get("Version") || ok && dpkg.Compare(dpkg.Version(p.Version), dpkg.Version(p.Replaces)) <= 0 {
				t.Fatalf("%s %s replaces %q", p.Name, p.Version, p.Replaces)
			}
			after[p.Name] = p.Paragraph
		}
		for _, w := range want {
			if !has(after, w) {
				t.Fatalf("%s was asked for; result %q", w, short(got))
			}
		}
		for name, p := range after {
			_, old := before[name]
			untouched := old && p.Get("Version") == before[name].Get("Version")
			if !has(after, p.Get("Depends")) && (!untouched || has(before, p.Get("Depends"))) {
				t.Fatalf("%s misses %s; result %q", name, p.Get("Depends"), short(got))
			}
			others := maps.Clone(after)
			delete(others, name)
			if c := p.Get("Conflicts"); c != "" && !untouched && has(others, c) {
				t.Fatalf("%s is with its enemy %s; result %q", name, c, short(got))
			}
		}
	})
}

// drawPackages generates control lines of small packages with many relations; each name once.
func drawPackages(t *rapid.T, label string, most int) string {
	names := []string{"a", "b", "c", "d", "e", "f"}
	relation := rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom(append(names, "v")).Draw(t, "name")
		if op := rapid.SampledFrom([]string{"", "", ">=", "=", "<<"}).Draw(t, "op"); op != "" {
			s += fmt.Sprintf(" (%s %d)", op, rapid.IntRange(1, 3).Draw(t, "version"))
		}
		return s
	})
	var lines []string
	seen := map[string]bool{}
	for range rapid.IntRange(0, most).Draw(t, label) {
		name, version := rapid.SampledFrom(names).Draw(t, "name"), rapid.IntRange(1, 3).Draw(t, "version")
		key := fmt.Sprint(name, version)
		if label == "status" {
			key = name
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		line := fmt.Sprintf("%s %d", name, version)
		if deps := rapid.SliceOfN(relation, 0, 2).Draw(t, "depends"); len(deps) > 0 {
			line += "; Depends: " + strings.Join(deps, rapid.SampledFrom([]string{" | ", ", "}).Draw(t, "join"))
		}
		if rapid.IntRange(0, 5).Draw(t, "conflicts") == 0 {
			line += "; Conflicts: " + relation.Draw(t, "enemy")
		}
		if rapid.IntRange(0, 3).Draw(t, "provides") == 0 {
			line += "; Provides: v (= 2)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// has reports, without the solver's code, whether a system meets a dependency field.
func has(system map[string]dpkg.Paragraph, field string) bool {
	rels, err := dpkg.ParseRelations(field)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(rels, func(group []dpkg.Relation) bool {
		return !slices.ContainsFunc(group, func(r dpkg.Relation) bool {
			p, ok := system[r.Name]
			if ok && r.Matches(dpkg.Version(p.Get("Version"))) {
				return true
			}
			return r.Name == "v" && r.Matches("2") && slices.ContainsFunc(slices.Collect(maps.Values(system)), func(p dpkg.Paragraph) bool {
				return p.Get("Provides") != ""
			})
		})
	})
}
