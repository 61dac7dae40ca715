package solve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// maker makes packages with many conflicts, the same ones for the same seed.
type maker struct {
	r     *rand.Rand
	names []string
}

func newMaker(seed uint64, names int) *maker {
	m := &maker{r: rand.New(rand.NewPCG(seed, 5))}
	for i := range names {
		m.names = append(m.names, fmt.Sprintf("p%02d", i))
	}
	return m
}

func (m *maker) pick(list ...string) string { return list[m.r.IntN(len(list))] }

func (m *maker) chance(percent int) bool { return m.r.IntN(100) < percent }

// relation returns a relation to a package or to something that several packages provide.
func (m *maker) relation() string {
	name := m.pick(m.names...)
	if m.chance(40) {
		name = fmt.Sprintf("v%d", m.r.IntN(len(m.names)/5))
	}
	if m.chance(40) {
		return fmt.Sprintf("%s %s %d", name, m.pick("=", ">=", ">=", "<", "<="), 1+m.r.IntN(3))
	}
	return name
}

func (m *maker) requirement() string {
	if m.chance(80) {
		return m.relation()
	}
	a, b, c := m.relation(), m.relation(), m.relation()
	return "(" + m.pick(
		a+" or "+b, a+" and "+b, a+" if "+b, a+" if "+b+" else "+c, a+" or "+b+" or "+c, a+" or ("+b+" and "+c+")", a+" if ("+b+" or "+c+")",
		a+" with "+b, a+" without "+b) + ")"
}

// conflict returns what a package may conflict with. rpm takes "unless" in conflicts only, and "if" in requirements only.
func (m *maker) conflict() string {
	if m.chance(50) {
		return m.relation()
	}
	a, b, c := m.relation(), m.relation(), m.relation()
	return "(" + m.pick(a+" or "+b, a+" and "+b, a+" and ("+b+" or "+c+")", a+" unless "+b, a+" unless "+b+" else "+c, a+" with "+b, a+" without "+b) + ")"
}

// packages makes one to three versions of every name.
func (m *maker) packages() string {
	var b strings.Builder
	for _, name := range m.names {
		for v := 1; v <= 3; v++ {
			if v == 1 || m.chance(40) {
				m.write(&b, name, v)
			}
		}
	}
	return b.String()
}

func (m *maker) write(b *strings.Builder, name string, v int) {
	fmt.Fprintf(b, "%s %d-1", name, v)
	switch {
	case m.chance(15):
		b.WriteString(" noarch")
	case m.chance(10):
		b.WriteString(" i686")
	}
	var requires, provides []string
	for range m.r.IntN(4) {
		requires = append(requires, m.requirement())
	}
	if m.chance(15) {
		requires = append(requires, fmt.Sprintf("%s = %d", m.pick(m.names...), v))
	}
	for range m.r.IntN(2) {
		p := fmt.Sprintf("v%d", m.r.IntN(len(m.names)/5))
		if m.chance(60) {
			p += fmt.Sprintf(" = %d", 1+m.r.IntN(3))
		}
		provides = append(provides, p)
	}
	for field, list := range map[string][]string{"requires": requires, "provides": provides} {
		if len(list) > 0 {
			fmt.Fprintf(b, "; %s: %s", field, strings.Join(list, ", "))
		}
	}
	if m.chance(7) {
		fmt.Fprintf(b, "; conflicts: %s", m.conflict())
	}
	if m.chance(4) {
		fmt.Fprintf(b, "; obsoletes: %s < %d", m.pick(m.names...), 2+m.r.IntN(2))
	}
	if m.chance(10) {
		fmt.Fprintf(b, "; files: /usr/bin/%s", name)
	}
	b.WriteByte('\n')
}

// system makes a consistent system of the oldest versions.
func (m *maker) system(t testing.TB, index []rpm.Package) []rpm.Package {
	var old []rpm.Package
	for _, p := range index {
		if p.Metadata.EVR.Version == "1" {
			old = append(old, p)
		}
	}
	x := indexOf(old)
	var have []rpm.Package
	for range len(m.names) / 6 {
		got, err := Resolve(context.Background(), x, metadataOf(have), []string{m.pick(m.names...)})
		if err != nil {
			continue
		}
		for _, p := range got {
			if p.Replaces != "" { // an obsoleted package would be removed: leave such cases out
				got = nil
			}
		}
		have = append(have, got...)
	}
	return have
}

// randomWorlds makes worlds and requests; every third world has an empty system.
func randomWorlds(t testing.TB, count, requests int) []*world {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("DRIVER_E2E_WORLDS")); err == nil {
		count = n
	}
	var worlds []*world
	for seed := range count {
		m := newMaker(uint64(seed), 30+30*(seed%4))
		w := &world{index: described(t, m.packages())}
		if seed%3 != 0 {
			w.system = m.system(t, w.index)
		}
		worlds = append(worlds, w)
	}
	makeWorlds(t, worlds)
	for seed, w := range worlds {
		m := newMaker(uint64(seed)+1000, 30+30*(seed%4))
		for range requests {
			if want := m.request(w); len(want) > 0 {
				w.reference.Wants = append(w.reference.Wants, want)
			}
		}
	}
	return worlds
}

// request returns requests for up to three things that are not installed. dnf upgrades a request that is
// installed, and for a package it accepts one that obsoletes an old version of it, even if the newest version
// is not obsoleted; this package does neither.
func (m *maker) request(w *world) []string {
	var want []string
	for range 1 + m.r.IntN(3) {
		name := m.pick(m.names...)
		if m.chance(20) {
			name = fmt.Sprintf("v%d = %d", m.r.IntN(len(m.names)/5), 1+m.r.IntN(3))
		}
		if !has(w.system, name) && !obsoleteOnce(w.index, name) {
			want = append(want, name)
		}
	}
	return want
}

// tally counts the results of comparisons.
type tally struct{ same, refused, different int }

func (c *tally) add(t testing.TB, i int, want []string, tool string, theirs, mine referenceAnswer) {
	switch {
	case !mine.same(theirs):
		c.different++
		t.Logf("world %d, %q:\n %s %v -%v %s\n we %v %s", i, want, tool, theirs.Add, theirs.Remove, theirs.Error, mine.Add, mine.Error)
	case mine.Error != "":
		c.refused++
	default:
		c.same++
	}
}

func (c *tally) report(t testing.TB, tool string, allowed int) {
	t.Logf("%s: %d the same sets, %d refused by both, %d different", tool, c.same, c.refused, c.different)
	if total := c.same + c.refused + c.different; c.different*100 > allowed*total {
		t.Errorf("%s: more than %d %% differ", tool, allowed)
	}
}

// TestRealRandom compares this package's solutions for random repositories, systems and requests with dnf's and zypper's.
//
// Some differ. After many dead ends, what both have learnt differs, and with it the choice among providers. In
// systems, libsolv prefers upgrades to new packages by weak rules for all packages in the repositories, and drops
// these because of packages that have nothing to do with the solution; this package makes them for those it tries.
func TestRealRandom(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	var cases []referenceCase
	worlds := randomWorlds(t, 12, 60)
	for _, w := range worlds {
		cases = append(cases, w.reference)
	}
	var empty, filled tally
	for i, answers := range askDNF(t, cases) {
		c := &filled
		if len(worlds[i].system) == 0 {
			c = &empty
		}
		for k, a := range answers {
			want := cases[i].Wants[k]
			c.add(t, i, want, "dnf", a, ours(t, worlds[i], want))
		}
	}
	empty.report(t, "dnf, empty systems", 3)
	filled.report(t, "dnf, systems", 4)
	compareZypper(t, worlds[:6])
}

// obsoleteOnce reports whether some package obsoletes an older version of a package: dnf then accepts that
// package for the request, although the newest version is not obsoleted.
func obsoleteOnce(index []rpm.Package, name string) bool {
	return slices.ContainsFunc(index, func(p rpm.Package) bool {
		return slices.ContainsFunc(p.Metadata.Obsoletes, func(r rpmfile.Relation) bool { return r.Name == name })
	})
}

// has reports whether an installed package meets a relation.
func has(system []rpm.Package, relation string) bool {
	r, err := rpmfile.ParseRequirement(relation)
	return err == nil && slices.ContainsFunc(system, func(p rpm.Package) bool { return p.Metadata.Meets(r.Relation) })
}
