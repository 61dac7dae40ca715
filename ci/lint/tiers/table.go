package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

//go:embed tiers.yaml
var list []byte

// tier is one entry of tiers.yaml.
type tier struct {
	Name     string
	About    string
	Packages []string
	Tests    []string          // regular expressions for names of tests; none: all tests of the packages
	Later    map[string]string // tests that CI leaves out, each with what CI runs instead; "Test/part" is a subtest
	Parallel int               // guests at a time; 0: as many tests as processors
	Cluster  bool              // needs Kubernetes' programs
}

func tiers() ([]tier, error) {
	var all []tier
	d := yaml.NewDecoder(bytes.NewReader(list))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("read tiers.yaml: %w", err)
	}
	return all, nil
}

// named selects tiers by their names, or by the beginning of their names.
func named(all []tier, names []string) ([]tier, error) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(t tier) bool { return t.is(name) }) {
			return nil, fmt.Errorf("there is no tier %q: ci/lint/tiers/tiers.yaml lists them", name)
		}
	}
	return slices.DeleteFunc(all, func(t tier) bool { return !slices.ContainsFunc(names, t.is) }), nil
}

func (t tier) is(name string) bool { return t.Name == name || strings.HasPrefix(t.Name, name+"-") }

// skip returns the regular expression of the tests that CI leaves out, for go test -skip; "" if it leaves out
// none.
func (t tier) skip() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Later)) {
		test, part, sub := strings.Cut(name, "/")
		pattern := "^(" + test + ")$"
		if sub {
			pattern += "/^" + part + "$"
		}
		out = append(out, pattern)
	}
	return strings.Join(out, "|")
}

// run returns the regular expression of the tier's tests, for go test -run.
func (t tier) run() string {
	if len(t.Tests) == 0 {
		return ""
	}
	return "^(" + strings.Join(t.Tests, "|") + ")$"
}

// command returns the tier's go test command.
func (t tier) command(whole bool) []string {
	args := []string{"go", "test", "-v", "-count=1", "-vet=off", "-p=1", "-timeout=" + limit.String()}
	if t.Parallel > 0 {
		args = append(args, fmt.Sprintf("-parallel=%d", t.Parallel))
	}
	if run := t.run(); run != "" {
		args = append(args, "-run="+run)
	}
	if skip := t.skip(); !whole && skip != "" {
		args = append(args, "-skip="+skip)
	}
	return append(args, t.Packages...)
}

// empty says whether CI leaves out the whole tier.
func (t tier) empty() bool {
	for _, test := range t.Tests {
		if _, out := t.Later[test]; !out {
			if _, out = t.Later[strings.Join(t.Tests, "|")]; !out {
				return false
			}
		}
	}
	return len(t.Tests) > 0
}
