package rpm

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// excludedBy returns the reason why a source excludes the package; "" if it does not. Patterns are
// shell globs over name, name.arch, name-version and name-version-release, each with or without
// .arch and with or without the epoch before the version.
func (p *Package) excludedBy(s repoconf.Source) string {
	if len(s.Exclude) == 0 && len(s.Include) == 0 {
		return ""
	}
	for _, pattern := range s.Exclude {
		if p.matches(pattern) {
			return "source " + s.ID + " excludes it (exclude=" + pattern + ")"
		}
	}
	if len(s.Include) == 0 || slices.ContainsFunc(s.Include, p.matches) {
		return ""
	}
	return "source " + s.ID + " does not include it (includepkgs=" + strings.Join(
		s.Include,
		" ",
	) + ")"
}

func (p *Package) matches(pattern string) bool {
	pattern = strings.ReplaceAll(pattern, "[!", "[^") // Go's form
	version := p.Metadata.EVR.Version
	plain := p.Metadata.EVR
	plain.Epoch = ""
	for _, v := range []string{"", "-" + version, "-" + plain.String(), "-" + p.Metadata.EVR.String()} {
		for _, arch := range []string{"", "." + p.Arch} {
			if ok, _ := path.Match(pattern, p.Name+v+arch); ok { //nolint:errcheck // then it matches nothing
				return true
			}
		}
	}
	return false
}
