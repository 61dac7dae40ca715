package apt

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/confdir"
)

// Source is one entry of the package sources. It stands for every combination of its URIs and
// suites, each with all components. The zero values of its switches are apt's defaults.
type Source struct {
	Origin string   // where the entry is, "etc/apt/sources.list:3"; only for messages
	URIs   []string // http, https or file; $(ARCH) is replaced by Debian's architecture name
	// "bookworm-updates"; a suite that ends in / is a flat repository without components
	Suites        []string
	Components    []string // "main"
	Architectures []string // empty: all
	// SignedBy has absolute paths of keyrings in the base, or fingerprints of its trusted keys;
	// empty: all trusted keys.
	SignedBy     []string
	Key          string // armoured public keys; if set, the only ones trusted for this source
	Trusted      bool   // accept it without a signature; the digests still count
	NoValidUntil bool   // accept it past its Valid-Until
	NoByHash     bool   // fetch indexes by name even if the repository offers them by digest
}

// ReadSources reads etc/apt/sources.list and etc/apt/sources.list.d/*.{list,sources} of a root file
// system, in apt's order. It omits disabled entries, source code (deb-src) and CD-ROMs. A result
// without sources is not an error. Mistakes are distros.ErrSources and name file and line.
func ReadSources(root fs.FS) ([]Source, error) {
	names, err := confdir.List(root, "etc/apt/sources.list.d", ".list", ".sources")
	if err != nil {
		return nil, fmt.Errorf("read package sources: %w", err)
	}
	var all []Source
	for _, name := range append([]string{"etc/apt/sources.list"}, names...) {
		data, err := confdir.Optional(root, name)
		if err != nil {
			return nil, distros.BadSources("%w", err)
		}
		parse := parseOneLine
		if path.Ext(name) == ".sources" {
			parse = parseDeb822
		}
		found, err := parse(name, data)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// check returns an error if an entry is unusable, and drops URIs that are not on a network.
func (s *Source) check() error {
	bad := func(format string, args ...any) error {
		return distros.BadSources("%s: %s", s.Origin, fmt.Sprintf(format, args...))
	}
	s.URIs = slices.DeleteFunc(
		slices.Clone(s.URIs),
		func(u string) bool { return strings.HasPrefix(u, "cdrom:") },
	)
	if len(s.URIs) == 0 {
		return nil
	}
	if len(s.Suites) == 0 {
		return bad("no suite")
	}
	for _, suite := range s.Suites {
		flat := strings.HasSuffix(suite, "/")
		switch {
		case !flat && len(s.Components) == 0:
			return bad("suite %q without components", suite)
		case flat && len(s.Components) > 0:
			return bad(
				"suite %q ends in a slash (a flat repository) and cannot have components",
				suite,
			)
		case !safePath(strings.Trim(suite, "/")) && strings.Trim(suite, "/") != "" && suite != "./":
			return bad("suite %q is not a path below the repository", suite)
		}
	}
	for _, c := range s.Components {
		if !safePath(c) {
			return bad("component %q is not a path below the suite", c)
		}
	}
	return nil
}

// safePath reports whether a relative path stays below its start and is clean.
func safePath(p string) bool {
	return fs.ValidPath(p) && p != "." && !strings.ContainsAny(p, "\\?#\x00\n\r")
}

func truth(value string) (val, ok bool) {
	switch strings.ToLower(value) {
	case "yes", "true", "1", "on", "with", "enable":
		return true, true
	case "no", "false", "0", "off", "without", "disable":
		return false, true
	}
	return false, false
}
