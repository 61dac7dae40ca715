package apt

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// Bytes. Texts are kept in blocks, because 60000 small strings cost the garbage collector more.
	arenaBlock = 1 << 20
	maxEntries = 1 << 21 // packages of one index; Debian's main has 63000
)

// unused names fields that no later step reads: a third of an index. Weak digests are among them, so nothing
// can use them.
var unused = []string{"Tag", "MD5sum", "SHA1", "SHA512", "Description-md5"}

// arena collects the entries of one index.
type arena struct {
	block   strings.Builder
	entries []entry
}

// add keeps the paragraph of a package for this architecture, without its unused fields.
func (a *arena) add(raw, arch string, repo *repo, component string) error {
	if len(a.entries) == maxEntries {
		return fmt.Errorf("more than %d packages", maxEntries)
	}
	if a.block.Cap()-a.block.Len() < len(raw) {
		a.block = strings.Builder{}
		a.block.Grow(max(arenaBlock, len(raw)))
	}
	start := a.block.Len()
	var span [4][2]int // positions of the values of Package, Version, Architecture and Provides
	for field := range fields(raw) {
		name, value, _ := strings.Cut(field, ":")
		switch i := kind(name); {
		case i == drop:
			continue
		case i >= 0:
			at := a.block.Len() + len(name) + 1
			span[i] = [2]int{at, at + len(value)}
		}
		a.block.WriteString(field)
	}
	text := a.block.String()
	get := func(i int) string { return strings.TrimSpace(text[span[i][0]:span[i][1]]) }
	e := entry{name: get(0), version: get(1), arch: get(2), provides: get(3), raw: text[start:], repo: repo, component: component}
	if e.name == "" || e.version == "" || e.arch == "" {
		return errors.New("a package without name, version or architecture")
	}
	if e.arch == arch || e.arch == "all" {
		a.entries = append(a.entries, e)
	}
	return nil
}

const drop = 100

// kind returns what to do with a field: drop it, record its position (0 to 3), or only keep it (-1).
func kind(name string) int {
	for i, n := range []string{"Package", "Version", "Architecture", "Provides"} {
		if len(n) == len(name) && strings.EqualFold(n, name) {
			return i
		}
	}
	for _, n := range unused {
		if len(n) == len(name) && strings.EqualFold(n, name) {
			return drop
		}
	}
	return -1
}

// fields yields the fields of a paragraph, each with its continuation lines and line ends.
func fields(raw string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for raw != "" {
			end := 0
			for {
				i := strings.IndexByte(raw[end:], '\n')
				if i < 0 {
					end = len(raw)
					break
				}
				if end += i + 1; end == len(raw) || raw[end] != ' ' && raw[end] != '\t' {
					break
				}
			}
			if !yield(raw[:end]) {
				return
			}
			raw = raw[end:]
		}
	}
}
