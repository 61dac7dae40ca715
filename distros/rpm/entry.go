package rpm

import (
	"encoding/hex"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// entry is one package of a list, in a compact form. 75000 entries as Packages would take some hundred
// megabytes, so a Package is made only when a caller asks for it; until then relations and files are ranges
// in the entry's table.
type entry struct {
	name, arch string
	evr        rpmfile.EVR
	priority   int // of the source
	cost       int // of the source
	hidden     string
	origin     string // id of the source
	url        string
	digest     string   // the bytes of a sha256 or a sha512
	keys       []string // see distros.Package.Keys
	hotfix     bool     // the source has module_hotfixes: modules hide none of its packages

	size int64

	table *table
	lists [kinds]span // of table.relations
	files span        // of table.files
}

type span struct{ from, to uint32 }

// table holds the data that the entries of one list share.
type table struct {
	texts     *texts
	evrs      []rpmfile.EVR
	evrIDs    map[rpmfile.EVR]uint32
	relations []relation
	files     []string
}

// relation is an rpmfile.Relation, or a rich dependency as its text.
type relation struct {
	name string
	evr  uint32 // index in table.evrs
	op   uint8  // index in operators
}

// operators are rpm's signs for the operators that the lists call by name.
var (
	operators = []string{"", "<", "<=", "=", ">=", ">"}
	flagNames = []string{"", "LT", "LE", "EQ", "GE", "GT"}
)

func (t *table) relation(r relation) rpmfile.Relation {
	return rpmfile.Relation{Name: r.name, Op: operators[r.op], EVR: t.evrs[r.evr]}
}

// evr returns the index of an EVR in the table and adds it the first time.
func (t *table) evr(v rpmfile.EVR) uint32 {
	id, ok := t.evrIDs[v]
	if !ok {
		id = uint32(len(t.evrs)) //nolint:gosec // bounded by maxRelations
		t.evrs = append(t.evrs, v)
		t.evrIDs[v] = id
	}
	return id
}

func newTable() *table {
	t := &table{texts: newTexts(), evrIDs: map[rpmfile.EVR]uint32{}}
	t.evr(rpmfile.EVR{})
	return t
}

// texts stores each string once, in blocks: the garbage collector takes longer for a million small strings
// than for ten large ones.
type texts struct {
	block strings.Builder
	known map[string]string
}

const textBlock = 1 << 18 // bytes

func newTexts() *texts { return &texts{known: map[string]string{}} }

// keep returns the text as a string that does not share memory with b.
func (t *texts) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := t.known[string(b)]; ok {
		return s
	}
	s := t.copy(b)
	t.known[s] = s
	return s
}

// copy is like keep, for texts that are unlikely to occur twice.
func (t *texts) copy(b []byte) string {
	if t.block.Cap()-t.block.Len() < len(b) {
		t.block = strings.Builder{}
		t.block.Grow(max(textBlock, len(b)))
	}
	start := t.block.Len()
	t.block.Write(b)
	return t.block.String()[start:]
}

// providedNames yields the names by which an entry can be found: its own, those that it provides, its files.
// A name may be yielded twice.
func (e *entry) providedNames(yield func(string) bool) {
	if !yield(e.name) {
		return
	}
	for _, r := range e.relationsOf(provides) {
		if !yield(r.name) {
			return
		}
	}
	for _, f := range e.filesOf() {
		if !yield(f) {
			return
		}
	}
}

func (e *entry) relationsOf(k kind) []relation {
	return e.table.relations[e.lists[k].from:e.lists[k].to]
}

func (e *entry) filesOf() []string {
	if e.files.from == e.files.to {
		return nil
	}
	return e.table.files[e.files.from:e.files.to:e.files.to]
}

// make returns the whole Package. Its rich dependencies were parsed when the list was read, so parsing them
// here cannot fail.
func (e *entry) make() *Package {
	p := &Package{
		Package: distros.Package{Name: e.name, Version: e.evr.String(), Arch: e.arch, URL: e.url, Size: e.size, Keys: e.keys},
		Metadata: rpmfile.Metadata{
			Name: e.name, EVR: e.evr, Arch: e.arch, Files: e.filesOf(),
			Provides: e.relations(provides), Requires: e.requirements(requires), Conflicts: e.requirements(conflicts), Obsoletes: e.relations(obsoletes),
		},
		Origin: e.origin, Priority: e.priority, Hidden: e.hidden,
	}
	if digest := hex.EncodeToString([]byte(e.digest)); len(e.digest) == 64 {
		p.SHA512 = digest
	} else {
		p.SHA256 = digest
	}
	return p
}

func (e *entry) requirements(k kind) []rpmfile.Requirement {
	var out []rpmfile.Requirement
	for _, r := range e.relationsOf(k) {
		if q, err := e.table.requirement(r); err == nil {
			out = append(out, q)
		}
	}
	return out
}

func (e *entry) relations(k kind) []rpmfile.Relation {
	var out []rpmfile.Relation
	for _, r := range e.relationsOf(k) {
		out = append(out, e.table.relation(r))
	}
	return out
}

// requirement returns a relation as a requirement. Only rich dependencies need parsing.
func (t *table) requirement(r relation) (rpmfile.Requirement, error) {
	if strings.HasPrefix(r.name, "(") {
		return rpmfile.ParseRequirement(r.name)
	}
	return rpmfile.Requirement{Relation: t.relation(r)}, nil
}
