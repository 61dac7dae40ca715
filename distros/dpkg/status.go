package dpkg

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Status is the database of a system's packages, var/lib/dpkg/status. The zero value is that of an
// empty system. It never changes after it was read, so it may be shared.
type Status struct {
	entries []Paragraph // all of them, in the order of the file
}

// maxPackages bounds a status file. All of Debian has about 100000 packages.
const maxPackages = 500000

// ReadStatus reads a status file. Lookups do not find packages that are not installed (removed with
// their configuration kept, half installed), but With keeps them.
func ReadStatus(r io.Reader) (*Status, error) {
	s := &Status{}
	for p, err := range ReadParagraphs(r) {
		if err != nil {
			return nil, fmt.Errorf("dpkg status: %w", err)
		}
		if len(s.entries) == maxPackages {
			return nil, malformed("dpkg status: more than %d packages", maxPackages)
		}
		if name := p.Get("Package"); !validPackage(name) {
			return nil, malformed("dpkg status: a package is called %.60q", name)
		}
		s.entries = append(s.entries, p)
	}
	return s, nil
}

// installed reports whether the third word of Status is a state in which all files of the package
// exist and it was configured. Pending triggers of other packages do not matter.
func installed(p Paragraph) bool {
	words := strings.Fields(p.Get("Status"))
	return len(words) == 3 &&
		slices.Contains([]string{"installed", "triggers-awaited", "triggers-pending"}, words[2])
}

// Packages returns the installed packages, in the order of the file.
func (s *Status) Packages() []Paragraph {
	return slices.DeleteFunc(
		slices.Clone(s.entries),
		func(p Paragraph) bool { return !installed(p) },
	)
}

// Find returns an installed package. With an architecture, it returns only a package of that one or
// of "all"; with "", any.
func (s *Status) Find(name, arch string) (Paragraph, bool) {
	i := slices.IndexFunc(s.entries, func(p Paragraph) bool {
		have := p.Get("Architecture")
		return p.Get("Package") == name && installed(p) &&
			(arch == "" || have == arch || have == "all")
	})
	if i < 0 {
		return Paragraph{}, false
	}
	return s.entries[i], true
}

// indexOnly are fields that a repository's index adds to a package's control data and that dpkg
// does not record.
var indexOnly = []string{
	"Status", "Filename", "Size", "MD5sum", "SHA1", "SHA256", "SHA512", "Description-md5", "Tag", "Task",
	"Phased-Update-Percentage", "Cnf-Visible-Pkgname", "Cnf-Extra-Commands", "Conffiles",
}

// With returns a status file in which the given packages (control data or index entries) are
// installed. They replace entries of the same package; others follow at the end, sorted by name and
// architecture, so the order of the arguments does not matter. A Conffiles field is kept when it
// has dpkg's form, lines of path and MD5.
func (s *Status) With(pkgs ...Paragraph) []byte {
	pkgs = slices.Clone(pkgs)
	slices.SortStableFunc(pkgs, func(a, b Paragraph) int {
		return cmp.Or(
			strings.Compare(a.Get("Package"), b.Get("Package")),
			strings.Compare(a.Get("Architecture"), b.Get("Architecture")),
		)
	})
	texts := make([]string, len(s.entries))
	places := map[string][]int{}
	for i, p := range s.entries {
		texts[i] = p.String()
		places[p.Get("Package")] = append(places[p.Get("Package")], i)
	}
	for _, p := range pkgs {
		text := asInstalled(p)
		placed := false
		for _, i := range places[p.Get("Package")] {
			if !replaces(p, s.entries[i]) {
				continue
			}
			if placed {
				text = ""
			}
			texts[i] = text
			placed = true
		}
		if !placed {
			texts = append(texts, text)
		}
	}
	var b strings.Builder
	for _, text := range texts {
		if text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	return []byte(b.String())
}

// replaces reports whether two packages of one name cannot both be installed. Only packages of
// different architectures that are both "Multi-Arch: same" can.
func replaces(p, old Paragraph) bool {
	return p.Get("Architecture") == old.Get("Architecture") || p.Get("Multi-Arch") != "same" ||
		old.Get("Multi-Arch") != "same"
}

func asInstalled(p Paragraph) string {
	conffiles := p.Get("Conffiles")
	p = p.Without(indexOnly...)
	fields := []field{{"Package", p.Get("Package")}, {"Status", "install ok installed"}}
	for _, f := range p.fields {
		if !strings.EqualFold(f.name, "Package") {
			fields = append(fields, f)
		}
	}
	if strings.HasPrefix(conffiles, "\n") {
		fields = append(fields, field{"Conffiles", conffiles})
	}
	return render(fields).String()
}
