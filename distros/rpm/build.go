package rpm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const (
	maxPackages  = 1 << 20 // in one list; Fedora has 75000
	maxRelations = 1 << 24 // in one list, and as many files; Fedora has 2 million
	maxPackage   = 8 << 30 // bytes of one package; the largest, with debugging symbols, have 2 GiB
)

// builder collects the packages of one list.
type builder struct {
	repo     *repo
	base     string // the folder that the list was downloaded from
	archs    []string
	names    func(string) bool // nil: all
	texts    map[string]string
	packages []*Package

	p                  *Package // the package being read
	lists              [kinds][]rpmfile.Requirement
	files              []string
	digestType, digest string
	href, xmlBase      string
	list               kind   // the kind of relations being read
	relations, paths   int    // of all packages together
	unusable           int    // packages whose entries have a fault
	fault              string // of the last of them
}

// kind is one of the four lists of relations of a package, an index in kindNames.
type kind int

const (
	requires kind = iota
	provides
	conflicts
	obsoletes
	kinds
)

var kindNames = []string{"requires", "provides", "conflicts", "obsoletes"}

// operators are rpm's signs for the operators that the lists call by flagNames.
var (
	operators = []string{"", "<", "<=", "=", ">=", ">"}
	flagNames = []string{"", "LT", "LE", "EQ", "GE", "GT"}
)

func newBuilder(r *repo, o Options) *builder {
	return &builder{repo: r, base: r.base, archs: archs[o.Arch], names: o.Names, texts: map[string]string{}}
}

func (b *builder) begin() {
	s := b.repo.source
	b.p = &Package{
		Package: distros.Package{Keys: b.repo.keys}, Origin: s.ID,
		Priority: cmp.Or(
			s.Priority,
			repoconf.DefaultPriority,
		), Cost: cmp.Or(s.Cost, repoconf.DefaultCost), Hotfix: s.ModuleHotfixes,
	}
	for k := range b.lists {
		b.lists[k] = b.lists[k][:0]
	}
	b.files = b.files[:0]
	b.digestType = ""
	b.digest = ""
	b.href = ""
	b.xmlBase = ""
}

// skip reports whether the package being read is not wanted, so that the rest of it is not needed.
func (b *builder) skip() bool {
	if b.names != nil && b.p.Name != "" && !b.names(b.p.Name) {
		return true
	}
	return b.p.Arch != "" && !slices.Contains(b.archs, b.p.Arch)
}

func (b *builder) evr(epoch, version, release []byte) rpmfile.EVR {
	if len(epoch) == 1 && epoch[0] == '0' {
		epoch = nil
	}
	return rpmfile.EVR{Epoch: b.text(epoch), Version: b.text(version), Release: b.text(release)}
}

func (b *builder) relation(k kind, name, flags, epoch, version, release []byte) error {
	if len(name) == 0 {
		return errors.New("a relation without a name")
	}
	if k == requires && strings.HasPrefix(string(name[:min(len(name), 7)]), "rpmlib(") {
		return nil // a feature of rpm itself, which no package provides
	}
	if b.relations++; b.relations > maxRelations {
		return fmt.Errorf("more than %d relations", maxRelations)
	}
	q := rpmfile.Requirement{Relation: rpmfile.Relation{Name: b.text(name)}}
	if len(flags) > 0 && len(version) > 0 {
		op := slices.Index(flagNames, string(flags))
		if op < 0 {
			return fmt.Errorf("unknown flags %.20q of a relation", flags)
		}
		q.Relation.Op = operators[op]
		q.Relation.EVR = b.evr(epoch, version, release)
	}
	if name[0] == '(' {
		var err error
		q, err = rpmfile.ParseRequirement(string(name))
		// the other relations of the list stay usable
		if err != nil || k == provides || k == obsoletes {
			b.hide(fmt.Sprintf("it has a rich dependency that cannot be understood: %.120s", name))
			return nil //nolint:nilerr // as above
		}
	}
	b.lists[k] = append(b.lists[k], q)
	return nil
}

func (b *builder) file(name []byte) error {
	if b.paths++; b.paths > maxRelations {
		return fmt.Errorf("more than %d files", maxRelations)
	}
	b.files = append(b.files, string(name))
	return nil
}

// hide records why the package cannot be used; the first reason stays.
func (b *builder) hide(why string) {
	if b.p.Hidden == "" {
		b.p.Hidden = why
	}
}

// end checks the package and adds it. A mistake in the list is an error; a mistake that only makes
// the package unusable hides the package.
func (b *builder) end() error {
	p, m := b.p, &b.p.Metadata
	if p.Name == "" || p.Arch == "" || m.EVR.Version == "" || m.EVR.Release == "" {
		return fmt.Errorf("package %.80q without name, version or architecture", p.Name)
	}
	if b.skip() {
		return nil
	}
	if len(b.packages) == maxPackages {
		return fmt.Errorf("more than %d packages", maxPackages)
	}
	sum, err := fetch.NewFile(b.digestType, b.digest, p.Size)
	if err != nil {
		b.hide(err.Error())
	}
	p.SHA256 = sum.SHA256
	p.SHA512 = sum.SHA512
	p.URL, err = joinURL(b.base, b.xmlBase, b.href)
	if err != nil {
		b.hide(fmt.Sprintf("location %.80q: %v", b.href, err))
	}
	switch {
	case p.Size <= 0:
		b.hide("the list does not tell its size")
	case p.Size > maxPackage:
		b.hide(fmt.Sprintf("it has %d bytes, more than the %d allowed", p.Size, int64(maxPackage)))
	}
	p.Version = m.EVR.String()
	if p.Hidden != "" {
		b.unusable++
		b.fault = p.String() + ": " + p.Hidden
	}
	if why := p.excludedBy(b.repo.source); why != "" {
		b.hide(why)
	}
	m.Name = p.Name
	m.Arch = p.Arch
	m.Requires = append(m.Requires, b.lists[requires]...)
	m.Conflicts = append(m.Conflicts, b.lists[conflicts]...)
	m.Provides = plain(b.lists[provides])
	m.Obsoletes = plain(b.lists[obsoletes])
	m.Files = append(m.Files, b.files...)
	b.packages = append(b.packages, p)
	return nil
}

// plain returns relations that are not rich.
func plain(list []rpmfile.Requirement) []rpmfile.Relation {
	if len(list) == 0 {
		return nil
	}
	out := make([]rpmfile.Relation, len(list))
	for i := range list {
		out[i] = list[i].Relation
	}
	return out
}

// text returns a text as a string, the same one for the same text: there are a million in a list,
// and few different ones.
func (b *builder) text(p []byte) string {
	s, known := b.texts[string(p)]
	if !known {
		s = string(p)
		b.texts[s] = s
	}
	return s
}

// providedNames returns the names by which a package can be found: its own, those that it provides,
// its files. A name may be there twice.
func (p *Package) providedNames() []string {
	names := append(make([]string, 0, 1+len(p.Metadata.Provides)+len(p.Metadata.Files)), p.Name)
	for _, r := range p.Metadata.Provides {
		names = append(names, r.Name)
	}
	return append(names, p.Metadata.Files...)
}
