package rpm

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// excludedBy returns the reason why a source excludes the package; "" if it does not. Patterns are shell
// globs over name, name.Arch, name-version and name-version-release, each with or without .arch and with or
// without the epoch before the version.
func (e *entry) excludedBy(s repoconf.Source) string {
	if len(s.Exclude) == 0 && len(s.Include) == 0 {
		return ""
	}
	for _, p := range s.Exclude {
		if e.matches(p) {
			return "source " + s.ID + " excludes it (exclude=" + p + ")"
		}
	}
	if len(s.Include) == 0 || slices.ContainsFunc(s.Include, e.matches) {
		return ""
	}
	return "source " + s.ID + " does not include it (includepkgs=" + strings.Join(s.Include, " ") + ")"
}

func (e *entry) matches(pattern string) bool {
	version := e.Metadata.EVR.Version
	plain := e.Metadata.EVR
	plain.Epoch = ""
	for _, v := range []string{"", "-" + version, "-" + plain.String(), "-" + e.Metadata.EVR.String()} {
		for _, arch := range []string{"", "." + e.Arch} {
			if ok, err := path.Match(pattern, e.Name+v+arch); ok && err == nil {
				return true
			}
		}
	}
	return false
}
