package main

import (
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
	// regular expressions for names of tests; none: all tests of the packages
	Tests []string
	// tests that CI leaves out, each with what CI runs instead; "Test/part" is a subtest
	Later    map[string]string
	Parallel int  // guests at a time; 0: as many tests as processors
	Jobs     int  // packages at a time; 0: one
	Cluster  bool // needs Kubernetes' programs
}

func tiers() (all []tier, err error) {
	err = yaml.Load(list, &all, yaml.WithKnownFields())
	if err != nil {
		return nil, fmt.Errorf("read tiers.yaml: %w", err)
	}
	return all, nil
}

// choose returns the tiers with these names, or whose names begin with them; without names all,
// except those that CI leaves out.
func choose(all []tier, whole bool, names []string) (chosen []tier, err error) {
	used := map[string]bool{}
	for _, t := range all {
		i := slices.IndexFunc(
			names,
			func(name string) bool { return t.Name == name || strings.HasPrefix(t.Name, name+"-") },
		)
		if i >= 0 {
			used[names[i]] = true
		}
		if i >= 0 || len(names) == 0 && (whole || !t.empty()) {
			chosen = append(chosen, t)
		}
	}
	for _, name := range names {
		if !used[name] {
			return nil, fmt.Errorf("there is no tier %q: ci/lint/tiers/tiers.yaml lists them", name)
		}
	}
	return chosen, nil
}

// run returns the regular expression of the tier's tests, for go test -run.
func (t tier) run() string {
	if len(t.Tests) == 0 {
		return "."
	}
	return "^(" + strings.Join(t.Tests, "|") + ")$"
}

// commands returns what the tier runs. A test that hangs ends before the tier's limit and says
// where it was.
func (t tier) commands(whole bool) (all [][]string) {
	if t.Cluster {
		all = append(all, []string{"ci/cluster/tools/build"})
	}
	args := []string{
		"go",
		"test",
		"-v",
		"-count=1",
		"-vet=off",
		fmt.Sprintf("-p=%d", max(1, t.Jobs)),
		"-timeout=58m",
		"-run=" + t.run(),
	}
	if t.Parallel > 0 {
		args = append(args, fmt.Sprintf("-parallel=%d", t.Parallel))
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Later)) {
		test, part, sub := strings.Cut(name, "/")
		pattern := "^(" + test + ")$"
		if sub {
			pattern += "/^" + part + "$"
		}
		out = append(out, pattern)
	}
	if len(out) > 0 && !whole {
		args = append(args, "-skip="+strings.Join(out, "|"))
	}
	return append(all, append(args, t.Packages...))
}

// empty says whether CI leaves out the whole tier.
func (t tier) empty() bool {
	_, all := t.Later[strings.Join(t.Tests, "|")]
	return len(t.Tests) > 0 &&
		(all || !slices.ContainsFunc(t.Tests, func(test string) bool { return t.Later[test] == "" }))
}
