package solve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// tape is a source of randomness that first returns the fuzzer's bytes, then random numbers.
type tape struct {
	data []byte
	then *rand.PCG
}

func (s *tape) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.then.Uint64()
	}
	b := s.data[0]
	s.data = s.data[1:]
	return uint64(b) * 0x0101010101010101
}

// FuzzResolve checks that for every repository and system the solver terminates and returns the same result
// twice, and that a result contains everything that it needs, breaks nothing that was intact, and has no
// packages that exclude each other.
func FuzzResolve(f *testing.F) {
	f.Add(uint64(1), []byte("x"), false)
	f.Add(uint64(7), []byte("\x00\xff\x80abcdefgh"), true)
	f.Fuzz(func(t *testing.T, seed uint64, data []byte, filled bool) {
		m := newMaker(0, 8+int(seed%12))
		m.r = rand.New(&tape{data, rand.NewPCG(seed, 1)})
		index := described(t, m.packages())
		var system []rpm.Package
		if filled {
			for _, p := range described(t, m.packages()) {
				if m.chance(30) && !slices.ContainsFunc(system, func(q rpm.Package) bool { return q.Name == p.Name }) {
					system = append(system, p)
				}
			}
		}
		want := []string{m.pick(m.names...)}
		if m.chance(50) {
			want = append(want, m.requirement())
		}
		x := indexOf(index)
		got, err := Resolve(context.Background(), x, metadataOf(system), want)
		again, err2 := Resolve(context.Background(), x, metadataOf(system), want)
		if fmt.Sprint(err) != fmt.Sprint(err2) || short(got) != short(again) {
			t.Fatalf("two results: %q %v, %q %v", short(got), err, short(again), err2)
		}
		if err != nil {
			if un := (*distros.UnresolvableError)(nil); !errors.As(err, &un) {
				t.Fatal(err)
			}
			return
		}
		checkClosed(t, metadataOf(system), metadataOf(got), want)
	})
}

// checkClosed checks a result by rpm's rules, without the solver's code.
func checkClosed(t *testing.T, before, added []rpmfile.Metadata, want []string) {
	t.Helper()
	after := slices.Clone(added)
	for _, old := range before {
		if !slices.ContainsFunc(added, func(p rpmfile.Metadata) bool { return takesPlace(t, p, old) }) {
			after = append(after, old)
		}
	}
	for _, w := range want {
		if r, err := rpmfile.ParseRequirement(w); err != nil || !met(after, r) && !slices.ContainsFunc(after, func(p rpmfile.Metadata) bool { return names(p.Obsoletes, r.Relation.Name) }) {
			t.Fatalf("%s was asked for; there is %s", w, labels(after))
		}
	}
	for i, p := range after {
		isNew := i < len(added)
		for _, r := range p.Requires {
			if !met(after, r) && (isNew || met(before, r)) {
				t.Fatalf("%s %s lacks %s; there is %s", p.Name, p.EVR, r, labels(after))
			}
		}
		for _, r := range p.Conflicts {
			others := slices.Delete(slices.Clone(after), i, i+1)
			if r.Operator != "" && met(after, r) && met(others, r) && (isNew || !met(before, r)) {
				t.Fatalf("%s %s conflicts with %s; there is %s", p.Name, p.EVR, r, labels(after))
			}
		}
		for k, q := range after {
			if i == k || !isNew && k >= len(added) {
				continue
			}
			for _, r := range p.Conflicts {
				if r.Operator == "" && met([]rpmfile.Metadata{q}, r) {
					t.Fatalf("%s %s is there with its enemy %s", p.Name, p.EVR, q.Name)
				}
			}
			if p.Name == q.Name && !together(p.Arch, q.Arch) {
				t.Fatalf("%s is there twice: %s", p.Name, labels(after))
			}
		}
	}
}

// takesPlace reports whether a new package replaces an installed one, and fails the test if it downgrades it.
func takesPlace(t *testing.T, p, old rpmfile.Metadata) bool {
	t.Helper()
	if p.Name == old.Name && !together(p.Arch, old.Arch) {
		if rpmfile.Compare(p.EVR, old.EVR) < 0 {
			t.Fatalf("%s is downgraded from %s to %s", p.Name, old.EVR, p.EVR)
		}
		return true
	}
	// rpm and libsolv: a package of 64 bits does not obsolete one of 32 bits.
	return !together(p.Arch, old.Arch) && slices.ContainsFunc(p.Obsoletes, func(r rpmfile.Relation) bool {
		return r.Name == old.Name && r.Matches(rpmfile.Relation{Name: old.Name, Op: "=", EVR: old.EVR})
	})
}

func names(list []rpmfile.Relation, name string) bool {
	return slices.ContainsFunc(list, func(r rpmfile.Relation) bool { return r.Name == name })
}

func labels(list []rpmfile.Metadata) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Name+" "+p.EVR.String())
	}
	return fmt.Sprint(out)
}

// met reports whether packages meet a requirement.
func met(there []rpmfile.Metadata, r rpmfile.Requirement) bool {
	part := func(i int) bool { return i < len(r.Parts) && met(there, r.Parts[i]) }
	switch r.Operator {
	case "and":
		return !slices.ContainsFunc(r.Parts, func(p rpmfile.Requirement) bool { return !met(there, p) })
	case "or":
		return slices.ContainsFunc(r.Parts, func(p rpmfile.Requirement) bool { return met(there, p) })
	case "if":
		if part(1) {
			return part(0)
		}
		return len(r.Parts) < 3 || part(2)
	case "unless":
		if part(1) {
			return part(2)
		}
		return part(0)
	case "with":
		return slices.ContainsFunc(there, func(m rpmfile.Metadata) bool {
			return !slices.ContainsFunc(r.Parts, func(p rpmfile.Requirement) bool { return !met([]rpmfile.Metadata{m}, p) })
		})
	case "without":
		return slices.ContainsFunc(there, func(m rpmfile.Metadata) bool {
			alone := []rpmfile.Metadata{m}
			return met(alone, r.Parts[0]) && !met(alone, r.Parts[1])
		})
	}
	return slices.ContainsFunc(there, func(m rpmfile.Metadata) bool {
		return slices.ContainsFunc(append(slices.Clone(m.Provides), rpmfile.Relation{Name: m.Name, Op: "=", EVR: m.EVR}), r.Relation.Matches) ||
			r.Relation.Op == "" && slices.Contains(m.Files, r.Relation.Name)
	})
}
