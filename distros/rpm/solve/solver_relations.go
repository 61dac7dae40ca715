package solve

import (
	"slices"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// wordSize returns 64 or 32, and 0 for noarch. Packages of one name but different word sizes can be
// installed together.
func wordSize(arch string) int {
	switch arch {
	case "noarch":
		return 0
	case "i386", "i486", "i586", "i686", "athlon", "armv7hl":
		return 32
	}
	return 64
}

func together(a, b string) bool {
	return wordSize(a) != wordSize(b) && wordSize(a) != 0 && wordSize(b) != 0
}

// supersedes reports whether a package obsoletes another one of a different name.
func supersedes(p, other *rpmfile.Metadata) bool {
	if p.Name == other.Name || together(p.Arch, other.Arch) {
		return false
	}
	self := rpmfile.Relation{Name: other.Name, Op: "=", EVR: other.EVR}
	return slices.ContainsFunc(
		p.Obsoletes,
		func(r rpmfile.Relation) bool { return r.Matches(self) },
	)
}

// replaces returns the installed packages that cannot stay if a package is installed.
func (u *universe) replaces(n int) []int {
	return slices.DeleteFunc(
		u.related(n),
		func(i int) bool { return u.all[n].beside && u.all[i].Name == u.all[n].Name },
	)
}

// related returns the installed packages of which a package is another version, or that it
// obsoletes.
func (u *universe) related(n int) (out []int) {
	p := u.all[n]
	if p.pkg == nil {
		return nil
	}
	for _, i := range u.names[p.Name] {
		if !together(u.all[i].Arch, p.Arch) {
			out = append(out, i)
		}
	}
	for _, r := range p.Obsoletes {
		for _, i := range u.names[r.Name] {
			if supersedes(p.Metadata, u.all[i].Metadata) && !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	return out
}

// installsBeside reports whether several versions of a package may be installed.
func installsBeside(m *rpmfile.Metadata) bool {
	var names []string
	for _, r := range m.Provides {
		names = append(names, r.Name)
	}
	return rpmfile.InstallOnly(m.Name, names)
}
