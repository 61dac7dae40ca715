package rpm

// links maps a name to any number of entries. It has three large pieces instead of a slice for each name:
// Fedora's packages provide 300000 names.
type links struct {
	heads map[string]int32
	chain []link
}

type link struct {
	entry, next int32
}

func newLinks() links { return links{heads: map[string]int32{}, chain: make([]link, 1)} }

// add inserts an entry before the others of the name; the same entry twice in a row is stored once.
func (l *links) add(name string, entry int) {
	head := l.heads[name]
	if head != 0 && l.chain[head].entry == int32(entry) { //nolint:gosec // bounded by maxPackages
		return
	}
	l.chain = append(l.chain, link{int32(entry), head}) //nolint:gosec // bounded by maxPackages
	l.heads[name] = int32(len(l.chain) - 1)             //nolint:gosec // bounded by maxRelations
}

// all yields the entries of a name.
func (l *links) all(name string) func(func(int) bool) {
	return func(yield func(int) bool) {
		for at := l.heads[name]; at != 0; at = l.chain[at].next {
			if !yield(int(l.chain[at].entry)) {
				return
			}
		}
	}
}
