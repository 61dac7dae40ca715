package rpmfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Metadata is the data for the resolution of dependencies, of an installed package or of one in a
// repository.
type Metadata struct {
	Name string
	EVR  EVR
	// rpm's: "x86_64", "noarch"; "src" for source packages; "" for the keys in the database
	Arch      string
	Provides  []Relation
	Requires  []Requirement // without those that rpm itself meets, rpmlib(...)
	Conflicts []Requirement
	Obsoletes []Relation
	// absolute paths; for a package of a repository perhaps only those of the primary list
	Files []string
}

// Metadata returns the part of the header that the resolution of dependencies uses. A package
// without a name or version, or with arrays of different lengths, is ErrFormat. Rich dependencies
// that cannot be parsed are left out: the package is installed all the same.
func (h *Header) Metadata() (Metadata, error) {
	m := Metadata{Name: h.Text(TagName), Arch: h.Text(TagArch)}
	m.EVR = EVR{Version: h.Text(TagVersion), Release: h.Text(TagRelease)}
	if epoch, ok := h.Int(TagEpoch); ok {
		m.EVR.Epoch = strconv.FormatUint(epoch, 10)
	}
	if h.Has(TagSourcePackage) {
		m.Arch = "src"
	}
	if m.Name == "" || m.EVR.Version == "" {
		return m, malformed("package header: no name or version")
	}
	files, wrong := h.paths()
	m.Files = files
	err := cmp.Or(h.relations(&m), wrong)
	if err != nil {
		return m, fmt.Errorf("header of %s %s: %w", m.Name, m.EVR, err)
	}
	self := Relation{Name: m.Name, Op: "=", EVR: m.EVR}
	for _, p := range m.Provides {
		if p == self || p.Name == self.Name && p.Op == "=" && Compare(p.EVR, self.EVR) == 0 {
			return m, nil
		}
	}
	m.Provides = append(m.Provides, self) // packages of rpm 3, and keys, do not provide themselves
	return m, nil
}

// Meets reports whether a package meets a relation by its name, by something it provides, or by one
// of Files.
func (m *Metadata) Meets(want Relation) bool {
	if want.Name == m.Name && want.Matches(Relation{Name: m.Name, Op: "=", EVR: m.EVR}) {
		return true
	}
	if slices.ContainsFunc(m.Provides, want.Matches) {
		return true
	}
	return want.Op == "" && strings.HasPrefix(want.Name, "/") && slices.Contains(m.Files, want.Name)
}

// InstallOnly reports whether several versions of a package may be installed, by its name and the
// names that it provides: kernels, their modules and their development files. The provides are
// those of the defaults of dnf (installonlypkgs) and zypper (provides:multiversion). The names are
// those of el7's yum, whose packages have no such provides.
func InstallOnly(name string, provides []string) bool {
	for p := range strings.FieldsSeq("kernel kernel-PAE installonlypkg(kernel) " +
		"installonlypkg(kernel-module) installonlypkg(vm) multiversion(kernel)") {
		if slices.Contains(provides, p) {
			return true
		}
	}
	switch name {
	case "kernel", "kernel-source", "kernel-debug", "kernel-smp", "kernel-bigmem",
		"kernel-enterprise", "kernel-unsupported":
		return true
	}
	return strings.HasPrefix(name, "kernel-") && strings.HasSuffix(name, "-devel")
}

func (h *Header) relations(m *Metadata) error {
	for _, d := range []struct {
		name, flags, version Tag
		add                  func(r Relation, flags uint64)
	}{
		{TagProvideName, TagProvideFlags, TagProvideVersion, func(r Relation, _ uint64) { m.Provides = append(m.Provides, r) }},
		{TagRequireName, TagRequireFlags, TagRequireVersion, func(r Relation, flags uint64) {
			if flags&(senseRPMLib|senseMissingOK) == 0 && !strings.HasPrefix(r.Name, "rpmlib(") {
				addRequirement(&m.Requires, r)
			}
		}},
		{TagConflictName, TagConflictFlags, TagConflictVersion, func(r Relation, _ uint64) { addRequirement(&m.Conflicts, r) }},
		{TagObsoleteName, TagObsoleteFlags, TagObsoleteVersion, func(r Relation, _ uint64) { m.Obsoletes = append(m.Obsoletes, r) }},
	} {
		names := h.Texts(d.name)
		flags := h.Ints(d.flags)
		versions := h.Texts(d.version)
		// rpm 3 wrote neither flags nor versions for a relation without them.
		if len(flags) != 0 && len(flags) != len(names) ||
			len(versions) != 0 && len(versions) != len(names) ||
			len(flags) != len(versions) {
			return malformed(
				"tag %d has %d names, %d flags and %d versions",
				d.name,
				len(names),
				len(flags),
				len(versions),
			)
		}
		for i, name := range names {
			r := Relation{Name: name}
			bits := uint64(0)
			if len(flags) > 0 {
				bits = flags[i]
				r.Op = operators[bits>>1&7]
				if versions[i] == "" {
					r.Op = ""
				}
			}
			if r.Op != "" {
				r.EVR = splitEVR(versions[i])
			}
			d.add(r, bits)
		}
	}
	return nil
}

func addRequirement(to *[]Requirement, r Relation) {
	q := Requirement{Relation: r}
	if strings.HasPrefix(r.Name, "(") {
		var err error
		q, err = ParseRequirement(r.Name)
		if err != nil {
			return
		}
	}
	*to = append(*to, q)
}

// paths returns the paths of all files. Its bounds follow from those of the header, except that
// names share folders.
func (h *Header) paths() ([]string, error) {
	if old := h.Texts(TagOldFileNames); len(old) > 0 {
		return old, nil
	}
	dirs := h.Texts(TagDirNames)
	bases := h.Texts(TagBaseNames)
	where := h.Ints(TagDirIndexes)
	if len(bases) != len(where) {
		return nil, malformed("%d names of files, %d folder indexes", len(bases), len(where))
	}
	total := 0
	names := make([]string, len(bases))
	for i, base := range bases {
		if where[i] >= uint64(len(dirs)) {
			return nil, malformed("file %d is in folder %d of %d", i, where[i], len(dirs))
		}
		names[i] = dirs[where[i]] + base
		if total += len(names[i]); total > maxPaths {
			return nil, malformed("the names of its files take more than %d bytes", maxPaths)
		}
	}
	return names, nil
}

// maxPaths is the upper bound for the paths of a package's files together, in bytes. The largest
// packages have 5 MiB.
const maxPaths = 64 << 20
