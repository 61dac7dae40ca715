package solve

import (
	"context"
	"errors"
	"slices"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Resolve returns the packages that must be added to a system, or upgraded in it, so that every
// want is met with everything that it needs (Requires, not Recommends or Supplements), sorted by
// name, version and architecture. A want is a requirement in rpm's syntax: "gcc", "gcc =
// 11.4.1-3.el9", "kernel-devel-uname-r = 5.14.0-427.el9.x86_64", "/usr/bin/make", "(a or b)", or
// "name.architecture". Installed packages stay as they are if possible. They are upgraded if a
// requirement or a conflict demands it, or replaced by a package that obsoletes them; never removed
// and never downgraded.
//
// The result is that of dnf with best=True and without weak dependencies: for a requested package,
// the newest version from the best repository, or an error; for all others, the choice of libsolv's
// policy. The function is pure: the result depends only on index, system and wants. Errors:
// *UnresolvableError, ErrSources for wants that cannot be parsed, ErrIndex for requirements that
// cannot be parsed, and those of fetching lists of files.
func Resolve(
	ctx context.Context,
	x *rpm.Index,
	installed []rpmfile.Metadata,
	want []string,
) ([]rpm.Package, error) {
	owned := func(path string) ([]*rpm.Package, error) { return x.Owners(ctx, path) }
	u := newUniverse(x, owned, installed)
	r, err := solve(ctx, u, want)
	if un := (*unsolvable)(nil); err != nil && !errors.As(err, &un) {
		return nil, err
	}
	if len(u.guessed) > 0 && (err != nil || r.relied()) {
		// Packages that were not examined were assumed to have a file: run again, with the lists of
		// files.
		u = newUniverse(x, owned, installed)
		u.lists = true
		r, err = solve(ctx, u, want)
	}
	if err != nil {
		return nil, r.explain(err)
	}
	return r.result(), nil
}

// resolution is one run of the solver.
type resolution struct {
	s        *solver
	requests []int
}

// solve runs the solver. If preferences prevent a solution, it drops them, the last one first, and
// runs again. It terminates, because each time more packages are exempt from preferences.
func solve(ctx context.Context, u *universe, want []string) (*resolution, error) {
	requests := make([][]clause, len(want))
	for i, w := range want {
		var err error
		requests[i], err = u.request(w)
		if err != nil {
			return nil, err
		}
		for _, c := range requests[i] {
			u.asked = append(u.asked, c.literals...)
		}
	}
	for {
		r := &resolution{s: &solver{u: u, ordered: map[int][]literal{}}}
		err := r.start(slices.Concat(requests...))
		if err == nil {
			err = r.s.run(ctx, r.requests)
		}
		var un *unsolvable
		if again := err == nil && r.needless() || errors.As(err, &un) && r.giveUp(un.proof); !again {
			return r, err
		}
	}
}

// start adds the clauses of the requests and of the installed packages.
func (r *resolution) start(requests []clause) error {
	u := r.s.u
	broken := -1
	add := func(c clause) int {
		c.literals = slices.Clone(c.literals)
		n := len(r.s.clauses)
		if i := r.s.include(c); i >= 0 && broken < 0 {
			broken = i
		}
		return n
	}
	r.s.grow()
	for _, c := range requests {
		r.requests = append(r.requests, add(c))
	}
	for n := 1; n <= u.installed; n++ {
		u.stays[n] = add(newClause(u.ways[n], byStaying, n, u.all[n].Name, u.all[n].Name))
		list, err := u.rules(n)
		if err != nil {
			return err
		}
		r.s.grow()
		r.s.expanded[n] = true
		for _, c := range list {
			add(c)
		}
	}
	if broken >= 0 {
		return &unsolvable{proof: r.s.proof(broken)}
	}
	return nil
}

// giveUp drops the last preference among clauses that contradict each other. It returns false if
// there is none.
func (r *resolution) giveUp(proof []int) bool {
	for _, i := range slices.Backward(proof) {
		if c := &r.s.clauses[i]; c.reason == byPreference {
			return r.s.u.giveUp(c.left)
		}
	}
	return false
}

// needless drops preferences that excluded packages which are in the solution all the same. It
// returns false if there are none.
func (r *resolution) needless() bool {
	found := false
	for i := range r.s.clauses {
		if left := r.s.clauses[i].left; slices.ContainsFunc(left, r.s.isTrue) &&
			r.s.u.giveUp(left) {
			found = true
		}
	}
	return found
}

// giveUp exempts packages that a preference excluded from all preferences. It returns false if they
// were exempt already.
func (u *universe) giveUp(left []literal) bool {
	before := len(u.givenUp)
	for _, l := range left {
		u.givenUp[l] = true
	}
	return len(u.givenUp) > before
}

// relied reports whether the solution depends on an assumption about files.
func (r *resolution) relied() bool {
	for n := range r.s.u.guessed {
		if r.s.level[n] > 0 {
			return true
		}
	}
	return false
}

// result returns the packages that the solution adds.
func (r *resolution) result() []rpm.Package {
	u := r.s.u
	var out []rpm.Package
	for n, p := range u.all {
		if n == 0 || n >= len(r.s.level) || r.s.level[n] <= 0 || p.pkg == nil {
			continue
		}
		q := *p.pkg
		for _, old := range u.replaces(n) {
			if o := u.all[old]; o.Name == p.Name {
				q.Replaces = evrText(o.EVR)
			} else if q.Replaces == "" {
				q.Replaces = o.Name + "-" + evrText(o.EVR)
			}
		}
		out = append(out, q)
	}
	slices.SortFunc(
		out,
		func(a, b rpm.Package) int { return compareMetadata(&a.Metadata, &b.Metadata) },
	)
	return out
}

// evrText returns [epoch:]version-release, without an epoch of 0.
func evrText(v rpmfile.EVR) string {
	if v.Epoch == "0" {
		v.Epoch = ""
	}
	return v.String()
}
