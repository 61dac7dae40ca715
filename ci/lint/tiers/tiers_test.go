package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

const root = "../../.."

var declared = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf lists the tests of a package, or of all packages below it when the name ends in "/...".
func testsOf(t *testing.T, pkg string) map[string][]string {
	t.Helper()
	dir, below := strings.CutSuffix(pkg, "/...")
	dir = filepath.Join(root, dir)
	found := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && !below && path != dir {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				if m[1] != "TestMain" {
					found[name] = append(found[name], m[1])
				}
			}
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("the tests of %s: %q, %v", pkg, found, err)
	}
	return found
}

func allTiers(t *testing.T) []tier {
	t.Helper()
	all, err := tiers()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d tiers, %v", len(all), err)
	}
	return all
}

func matches(t *testing.T, pattern, name string) bool {
	t.Helper()
	return regexp.MustCompile("^(" + pattern + ")$").MatchString(name)
}

// TestNoneIsLost: each test of the packages that belong to the tiers alone is in one tier, and so is each
// other package whose tests ask for DRIVER_E2E.
func TestNoneIsLost(t *testing.T) {
	t.Parallel()
	in, packages := map[string][]string{}, map[string]bool{} // "package test" -> tiers
	for _, tier := range allTiers(t) {
		for _, pkg := range tier.Packages {
			for name, tests := range testsOf(t, pkg) {
				packages[name] = true
				for _, test := range tests {
					if run := tier.run(); run == "" || regexp.MustCompile(run).MatchString(test) {
						in[name+" "+test] = append(in[name+" "+test], tier.Name)
					}
				}
			}
		}
	}
	for _, pkg := range []string{"./ci/e2e", "./ci/lab/scenarios", "./ci/peers/conformance", "./ci/cluster/..."} {
		for name, tests := range testsOf(t, pkg) {
			for _, test := range tests {
				if tiers := in[name+" "+test]; len(tiers) != 1 {
					t.Errorf("%s of %s is in the tiers %q, want one", test, name, tiers)
				}
			}
		}
	}
	asks := regexp.MustCompile(`"DRIVER_E2E"|gate\.Real|lab\.Gate|lab\.Kernel|control\.Start`)
	assert.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, root+"/ci/lint/tiers/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name, err := filepath.Rel(root, filepath.Dir(path)); err == nil && asks.Match(text) && !packages[name] {
			t.Errorf("%s asks for DRIVER_E2E, and its package is in no tier", path)
		}
		return nil
	}))
}

// TestLater: tests that CI leaves out exist, and name what CI runs instead.
func TestLater(t *testing.T) {
	t.Parallel()
	for _, tier := range allTiers(t) {
		var all []string
		for _, pkg := range tier.Packages {
			for _, tests := range testsOf(t, pkg) {
				all = append(all, tests...)
			}
		}
		for name, why := range tier.Later {
			test, _, _ := strings.Cut(name, "/")
			if why == "" || !slices.ContainsFunc(all, func(n string) bool { return matches(t, test, n) }) {
				t.Errorf("tier %s, later: %q is no test of its packages, or nothing is said of it", tier.Name, name)
			}
		}
		for _, pattern := range tier.Tests {
			if !slices.ContainsFunc(all, func(n string) bool { return matches(t, pattern, n) }) {
				t.Errorf("tier %s: no test of its packages matches %q", tier.Name, pattern)
			}
		}
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	one := tier{Name: "x-y", Packages: []string{"./a"}, Tests: []string{"TestA", "TestB.*"}, Parallel: 2, Later: map[string]string{"TestB.*": "?", "TestA/part": "?"}}
	got := strings.Join(one.command(false), " ")
	want := "go test -v -count=1 -vet=off -p=1 -timeout=3h0m0s -parallel=2 -run=^(TestA|TestB.*)$ -skip=^(TestA)$/^part$|^(TestB.*)$ ./a"
	assert.Equal(t, want, got)
	if whole := strings.Join(one.command(true), " "); strings.Contains(whole, "-skip") {
		t.Errorf("named: %s", whole)
	}
	if one.empty() || !(tier{Tests: []string{"A", "B"}, Later: map[string]string{"A|B": "?"}}).empty() {
		t.Error("which tier has nothing for CI?")
	}
	assert.ErrorContainsf(t, assert.Err(named([]tier{one}, []string{"x", "z"})), `"z"`, "a tier that is not there")
	if some, err := named([]tier{one, {Name: "xy"}}, []string{"x"}); err != nil || len(some) != 1 {
		t.Errorf("%v, %v", some, err)
	}
}
