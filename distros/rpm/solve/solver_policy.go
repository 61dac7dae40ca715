package solve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// choose sorts packages of which one is enough, the best first, and drops those that would never be
// chosen. Its steps and their order are those of libsolv's policy: repositories of the best
// priority, best architecture, newest version of each name, nothing that another package obsoletes;
// then by name, with packages of which a newer version exists at the end.
func (u *universe) choose(options []literal) []literal {
	out := u.best(options)
	if len(out) < 2 {
		return out
	}
	old := map[literal]bool{}
	for _, l := range out {
		old[l] = u.isOld(l)
	}
	slices.SortStableFunc(out, func(a, b literal) int { return boolsFirst(old[b], old[a]) })
	return u.sortByCommonProvides(out)
}

// best is choose without the last steps, as needed for requests.
func (u *universe) best(options []literal) []literal {
	out := slices.Clone(options)
	if len(out) < 2 {
		return out
	}
	out = u.bestPriority(out)
	out = u.bestArch(out)
	return u.bestVersions(out)
}

func (u *universe) bestPriority(list []literal) []literal {
	best := math.MaxInt
	for _, l := range list {
		if p := u.all[l].pkg; p != nil {
			best = min(best, p.Priority)
		}
	}
	return slices.DeleteFunc(
		list,
		func(l literal) bool { p := u.all[l].pkg; return p != nil && p.Priority > best },
	)
}

// bestArch drops 32 bit packages if there is one of 64 bits; noarch packages stay in any case.
func (u *universe) bestArch(list []literal) []literal {
	best := 0
	for _, l := range list {
		best = max(best, wordSize(u.all[l].Arch))
	}
	return slices.DeleteFunc(
		list,
		func(l literal) bool { w := wordSize(u.all[l].Arch); return w != 0 && w != best },
	)
}

// bestVersions keeps one package of each name, without those that another one obsoletes.
func (u *universe) bestVersions(list []literal) []literal {
	slices.SortFunc(list, func(a, b literal) int {
		p := u.all[a]
		q := u.all[b]
		return cmp.Or(
			strings.Compare(p.Name, q.Name),
			rpmfile.Compare(q.EVR, p.EVR),
			cmp.Compare(rpm.ArchRank(p.Arch), rpm.ArchRank(q.Arch)),
			boolsFirst(p.pkg == nil, q.pkg == nil),
			u.order(int(a), int(b)),
		)
	})
	list = slices.CompactFunc(
		list,
		func(a, b literal) bool { return u.all[a].Name == u.all[b].Name },
	)
	if len(list) > 1 {
		list = u.dropObsoleted(list)
	}
	slices.SortStableFunc(list, func(a, b literal) int {
		return boolsFirst(len(u.names[u.all[a].Name]) > 0, len(u.names[u.all[b].Name]) > 0)
	})
	return list
}

// boolsFirst sorts true before false.
func boolsFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// dropObsoleted drops packages that another one of the list obsoletes, unless they obsolete each
// other.
func (u *universe) dropObsoleted(list []literal) []literal {
	return slices.DeleteFunc(slices.Clone(list), func(l literal) bool {
		return slices.ContainsFunc(list, func(m literal) bool {
			return m != l && supersedes(u.all[m].Metadata, u.all[l].Metadata) &&
				!u.reaches(list, l, m)
		})
	})
}

// reaches reports whether one package of a list obsoletes another one, directly or through further
// ones.
func (u *universe) reaches(list []literal, from, to literal) bool {
	seen := map[literal]bool{from: true}
	next := []literal{from}
	for len(next) > 0 {
		l := next[0]
		next = next[1:]
		for _, m := range list {
			if !seen[m] && supersedes(u.all[l].Metadata, u.all[m].Metadata) {
				if m == to {
					return true
				}
				seen[m] = true
				next = append(next, m)
			}
		}
	}
	return false
}

// isOld reports whether a newer version of a package exists in a repository of the same priority.
func (u *universe) isOld(l literal) bool {
	p := u.all[l]
	if p.pkg == nil {
		return false
	}
	return slices.ContainsFunc(u.named(p.Name), func(m literal) bool {
		q := u.all[m]
		switch {
		case m == l || q.Arch != p.Arch:
			return false
		case q.pkg == nil:
			return true // for libsolv, an installed package has precedence over any repository
		case q.pkg.Priority != p.pkg.Priority:
			return q.pkg.Priority < p.pkg.Priority
		}
		return rpmfile.Compare(q.EVR, p.EVR) > 0
	})
}

// sortByCommonProvides moves packages back if they provide older versions of something than others
// in the list: java-17 comes before java-11 if java is needed.
func (u *universe) sortByCommonProvides(list []literal) []literal {
	type provision struct {
		of literal
		r  rpmfile.Relation
	}
	var all []provision
	for _, l := range list {
		for _, r := range u.all[l].Provides {
			if (r.Op == "=" || r.Op == "<" || r.Op == "<=") &&
				!(r.Op == "=" && looksLikeDigest(r.EVR.String())) {
				all = append(all, provision{l, r})
			}
		}
	}
	newest := func(a, b provision) int { // as ranges: the one that reaches higher comes first
		return cmp.Or(-compareLoosely(a.r.EVR, b.r.EVR), boolsFirst(b.r.Op == "<", a.r.Op == "<"))
	}
	slices.SortStableFunc(
		all,
		func(a, b provision) int { return cmp.Or(strings.Compare(a.r.Name, b.r.Name), newest(a, b)) },
	)
	behind := map[literal]int{}
	bad := 0
	for i, p := range all {
		if i == 0 || all[i-1].r.Name != p.r.Name {
			bad = 0
		} else if all[i-1].of != p.of && newest(all[i-1], p) < 0 {
			bad++
		}
		if u.all[p.of].pkg != nil { // an installed one stays in front
			behind[p.of] += bad
		}
	}
	slices.SortStableFunc(list, func(a, b literal) int { return cmp.Compare(behind[a], behind[b]) })
	return list
}

// compareLoosely is Compare, except that a missing release equals every release.
func compareLoosely(a, b rpmfile.EVR) int {
	if a.Release == "" || b.Release == "" {
		a.Release = ""
		b.Release = ""
	}
	return rpmfile.Compare(a, b)
}

// looksLikeDigest reports whether a version is that of a symbol, which does not become newer.
func looksLikeDigest(version string) bool {
	return len(version) >= 4 && strings.Trim(version, "0123456789abcdef") == ""
}
