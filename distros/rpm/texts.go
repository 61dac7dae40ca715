package rpm

import "strings"

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

// providedNames yields the names by which a package can be found: its own, those that it provides, its files.
// A name may be yielded twice.
func (p *Package) providedNames(yield func(string) bool) {
	if !yield(p.Name) {
		return
	}
	for _, r := range p.Metadata.Provides {
		if !yield(r.Name) {
			return
		}
	}
	for _, f := range p.Metadata.Files {
		if !yield(f) {
			return
		}
	}
}
