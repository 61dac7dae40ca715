package main

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// declared finds the tests of a file, and asks what only a test of the tiers asks for.
var (
	declared = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	asks     = regexp.MustCompile(`"DRIVER_E2E"|tool\.Real|imagetest\.NewDistribution|lab\.Gate|lab\.Kernel|control\.Start`)
)

// tests returns the tests of each package, "./ci/lab", and which packages ask for DRIVER_E2E.
func tests(t *testing.T) (found map[string][]string, needsMore map[string]bool) {
	t.Helper()
	found, needsMore = map[string][]string{}, map[string]bool{}
	root := os.DirFS("../../..")
	require.NoError(t, fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		pkg := "./" + path.Dir(name)
		if err != nil || !strings.HasSuffix(name, "_test.go") || pkg == "./ci/lint/tiers" {
			return err
		}
		text := require.Value(fs.ReadFile(root, name))(t)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "TestMain" {
				found[pkg] = append(found[pkg], m[1])
			}
		}
		needsMore[pkg] = needsMore[pkg] || asks.Match(text)
		return nil
	}))
	return found, needsMore
}

// TestTable: each test of the packages that belong to the tiers alone is in one tier, each package whose tests ask
// for DRIVER_E2E is in one, and what the table names exists.
func TestTable(t *testing.T) {
	t.Parallel()
	found, needsMore := tests(t)
	in := map[string][]string{} // "package test" -> tiers
	for _, tier := range require.Value(tiers())(t) {
		var all []string
		for pkg, tests := range found {
			if !slices.ContainsFunc(tier.Packages, func(p string) bool {
				root, below := strings.CutSuffix(p, "/...")
				return pkg == root || below && strings.HasPrefix(pkg, root+"/")
			}) {
				continue
			}
			all = append(all, tests...)
			delete(needsMore, pkg)
			for _, test := range tests {
				if regexp.MustCompile(tier.run()).MatchString(test) {
					in[pkg+" "+test] = append(in[pkg+" "+test], tier.Name)
				}
			}
		}
		named := slices.Clone(tier.Tests)
		for name, why := range tier.Later {
			test, _, _ := strings.Cut(name, "/")
			named = append(named, test)
			assert.Equalf(t, true, why != "", "tier %s, later: %s: say what CI runs instead", tier.Name, name)
		}
		for _, pattern := range named {
			exact := regexp.MustCompile("^(" + pattern + ")$")
			assert.Equalf(t, true, slices.ContainsFunc(all, exact.MatchString), "tier %s: a test of its packages matches %q", tier.Name, pattern)
		}
	}
	for pkg, tests := range found {
		if !slices.ContainsFunc([]string{"./ci/e2e", "./ci/lab/scenarios", "./ci/peers/conformance"}, func(p string) bool { return pkg == p }) &&
			!strings.HasPrefix(pkg+"/", "./ci/cluster/") {
			continue
		}
		for _, test := range tests {
			assert.Equalf(t, 1, len(in[pkg+" "+test]), "tiers of %s %s: %q", pkg, test, in[pkg+" "+test])
		}
	}
	for pkg, asks := range needsMore {
		assert.Equalf(t, false, asks, "%s asks for DRIVER_E2E, and is in no tier", pkg)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	one := tier{Name: "x-y", Packages: []string{"./a"}, Tests: []string{"TestA", "TestB.*"}, Parallel: 2, Later: map[string]string{"TestB.*": "?", "TestA/part": "?"}, Jobs: 2, Cluster: true}
	none := tier{Name: "xy", Tests: []string{"A", "B"}, Later: map[string]string{"A|B": "?"}}
	got := one.commands(false)
	assert.Same(t, [][]string{{"ci/cluster/tools/build"}, {"go", "test", "-v", "-count=1", "-vet=off", "-p=2", "-timeout=58m", "-run=^(TestA|TestB.*)$", "-parallel=2",
		"-skip=^(TestA)$/^part$|^(TestB.*)$", "./a"}}, got)
	assert.Equal(t, false, strings.Contains(strings.Join(one.commands(true)[1], " "), "-skip"))
	assert.ErrorContains(t, assert.Err(choose([]tier{one}, true, []string{"x", "z"})), `no tier "z"`)
	assert.Same(t, []tier{one}, require.Value(choose([]tier{one, none}, true, []string{"x"}))(t))
	assert.Same(t, []tier{one}, require.Value(choose([]tier{one, none}, false, nil))(t))
	assert.Same(t, []tier{one, none}, require.Value(choose([]tier{one, none}, true, nil))(t))
}
