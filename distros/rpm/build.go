package rpm

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	repo    *repo
	base    string // the folder that the list was downloaded from
	wanted  []string
	table   *table
	entries []entry

	e                  entry // the package being read
	digestType, digest string
	href, xmlBase      string
	list               kind // the kind of relations being read
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

func newBuilder(r *repo, base, arch string) *builder {
	return &builder{repo: r, base: base, wanted: archs[arch], table: newTable()}
}

func (b *builder) begin() {
	s := b.repo.source
	b.e = entry{
		table: b.table, origin: s.ID, keys: b.repo.keys, hotfix: s.ModuleHotfixes,
		priority: s.Priority, cost: s.Cost,
	}
	if b.e.priority == 0 {
		b.e.priority = repoconf.DefaultPriority
	}
	if b.e.cost == 0 {
		b.e.cost = repoconf.DefaultCost
	}
	n := uint32(len(b.table.files)) //nolint:gosec // bounded by maxRelations
	b.e.files = span{n, n}
	b.digestType, b.digest, b.href, b.xmlBase = "", "", "", ""
}

func (b *builder) text(p []byte) string { return b.table.texts.keep(p) }

// skip reports whether the package being read is for another architecture, so that the rest of it is not
// needed.
func (b *builder) skip() bool {
	return b.e.arch != "" && !slices.Contains(b.wanted, b.e.arch)
}

func (b *builder) evr(epoch, version, release []byte) rpmfile.EVR {
	if len(epoch) == 1 && epoch[0] == '0' {
		epoch = nil
	}
	return rpmfile.EVR{Epoch: b.text(epoch), Version: b.text(version), Release: b.text(release)}
}

// relations begins the list of relations of one kind, which must be contiguous.
func (b *builder) relations(k kind) {
	n := uint32(len(b.table.relations)) //nolint:gosec // bounded by maxRelations
	b.e.lists[k] = span{n, n}
}

func (b *builder) relation(k kind, name, flags, epoch, version, release []byte) error {
	if len(name) == 0 {
		return errors.New("a relation without a name")
	}
	if k == requires && strings.HasPrefix(string(name[:min(len(name), 7)]), "rpmlib(") {
		return nil // a feature of rpm itself, which no package provides
	}
	if len(b.table.relations) == maxRelations {
		return fmt.Errorf("more than %d relations", maxRelations)
	}
	r := relation{name: b.text(name)}
	if len(flags) > 0 && len(version) > 0 {
		op := slices.Index(flagNames, string(flags))
		if op < 0 {
			return fmt.Errorf("unknown flags %.20q of a relation", flags)
		}
		r.op = uint8(op) //nolint:gosec // of six
		r.evr = b.table.evr(b.evr(epoch, version, release))
	}
	if name[0] == '(' {
		_, err := b.table.requirement(r)
		if understood := err == nil && (k == requires || k == conflicts); !understood { // the other relations of the list stay usable
			b.hide(fmt.Sprintf("it has a rich dependency that cannot be understood: %.120s", r.name))
			return nil
		}
	}
	b.table.relations = append(b.table.relations, r)
	b.e.lists[k].to++
	return nil
}

func (b *builder) file(name []byte) error {
	if len(b.table.files) == maxRelations {
		return fmt.Errorf("more than %d files", maxRelations)
	}
	b.table.files = append(b.table.files, b.table.texts.copy(name))
	b.e.files.to++
	return nil
}

// hide records why the package cannot be used; the first reason stays.
func (b *builder) hide(why string) {
	if b.e.hidden == "" {
		b.e.hidden = why
	}
}

// end checks the package and adds it. A mistake in the list is an error; a mistake that only makes the
// package unusable hides the package.
func (b *builder) end() error {
	e := &b.e
	if e.name == "" || e.arch == "" || e.evr.Version == "" || e.evr.Release == "" {
		return fmt.Errorf("package %.80q without name, version or architecture", e.name)
	}
	if b.skip() {
		return nil
	}
	if len(b.entries) == maxPackages {
		return fmt.Errorf("more than %d packages", maxPackages)
	}
	if s, err := newChecksum(b.digestType, b.digest, e.size); err != nil {
		b.hide(err.Error())
	} else if raw, err := hex.DecodeString(cmp.Or(s.SHA256, s.SHA512)); err == nil {
		e.digest = b.table.texts.copy(raw)
	}
	var err error
	if e.url, err = joinURL(b.base, b.xmlBase, b.href); err != nil {
		b.hide(fmt.Sprintf("location %.80q: %v", b.href, err))
	}
	switch {
	case e.size <= 0:
		b.hide("the list does not tell its size")
	case e.size > maxPackage:
		b.hide(fmt.Sprintf("it has %d bytes, more than the %d allowed", e.size, int64(maxPackage)))
	}
	if why := e.excludedBy(b.repo.source); why != "" {
		b.hide(why)
	}
	b.entries = append(b.entries, *e)
	return nil
}
