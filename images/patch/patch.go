// Package patch reads changes to text files (unified diffs) and applies them to exactly the text
// that they were made from: at the line that they name, with every line as it stands there.
//
// It searches no better place for a change, except to name it in an error, and it reads and writes
// no file. It refuses what is no change of text: modes, links, renames, deletions, binary files.
package patch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Bounds of a patch.
const (
	MaxBytes = 256 << 10 // the largest of Debian's for this driver has 25 kB
	maxFiles = 64
	maxHunks = 512
)

// ErrFormat says that a text is no patch that this package applies.
var ErrFormat = errors.New("not a patch that can be applied exactly")

// Patch is a parsed patch.
type Patch struct {
	Name  string
	files []*gitdiff.File // of each path one
}

// Parse parses a patch, whose files must be below one of the folders. Names of files begin with a/
// and b/, as git writes them. name is for messages.
func Parse(name string, text []byte, folders ...string) (*Patch, error) {
	wrong := func(format string, args ...any) (*Patch, error) {
		return nil, fmt.Errorf("%w: patch %s: %s", ErrFormat, name, fmt.Sprintf(format, args...))
	}
	switch {
	case len(text) > MaxBytes:
		return wrong("%d bytes are too many (at most %d)", len(text), MaxBytes)
	case bytes.IndexByte(text, '\r') >= 0:
		return wrong(
			"line %d ends in CR LF, and the lines of the driver's sources in LF: convert it",
			1+bytes.Count(text[:bytes.IndexByte(text, '\r')], []byte("\n")),
		)
	case bytes.IndexByte(text, 0) >= 0:
		return wrong("it has a zero byte")
	}
	files, preamble, err := gitdiff.Parse(bytes.NewReader(text))
	if err != nil {
		return wrong("%s", strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	if len(files) == 0 || len(files) > maxFiles {
		return wrong("it changes %d files, not 1 to %d", len(files), maxFiles)
	}
	hunks := 0
	seen := map[string]bool{}
	for _, f := range files {
		if err := checkFile(f, folders); err != nil {
			return wrong("%v", err)
		}
		if hunks += len(f.TextFragments); hunks > maxHunks {
			return wrong("it has more than %d hunks", maxHunks)
		}
		if seen[f.NewName] {
			return wrong("file %s: it is there twice: make one change of both", f.NewName)
		}
		seen[f.NewName] = true
	}
	if err := checkComplete(files, text[len(preamble):]); err != nil {
		return wrong("%v", err)
	}
	return &Patch{Name: name, files: files}, nil
}

// checkFile checks a file's part of a patch, and takes the prefixes off its name.
func checkFile(f *gitdiff.File, folders []string) error {
	name := f.NewName
	if name == "" {
		name = f.OldName
	}
	for _, prefix := range []string{"a/", "b/"} { // names without a git header still have them
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			name = rest
			break
		}
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("file %.200q: %s", name, fmt.Sprintf(format, args...))
	}
	first, _, _ := strings.Cut(name, "/")
	switch {
	case !fs.ValidPath(name) || path.Base(name) == first || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }),
		!slices.Contains(folders, first):
		return bad(
			"it is not below %s: names begin with a/ and b/ and lead to no other place",
			strings.Join(folders, "/ or ")+"/",
		)
	case f.IsBinary:
		return bad("it is binary")
	case f.IsDelete || f.IsRename || f.IsCopy:
		return bad("a patch changes text: it deletes, renames and copies nothing")
	case f.IsNew && f.NewMode != 0 && f.NewMode != 0o100644:
		return bad("a new file has mode 100644, not %o", f.NewMode)
	case !f.IsNew && (f.OldMode != f.NewMode && f.NewMode != 0 || f.OldMode&0o170000 == 0o120000):
		return bad("a patch changes text: no modes and no links")
	case len(f.TextFragments) == 0:
		return bad("nothing in it is changed")
	}
	f.NewName = name
	for i, hunk := range f.TextFragments {
		switch err := hunk.Validate(); {
		case err != nil:
			return bad("hunk %d: %v", i+1, err)
		case f.IsNew != (hunk.OldPosition == 0):
			return bad(
				"hunk %d: a file that is new begins at line 0, one that is there at line 1",
				i+1,
			)
		case !f.IsNew && hunk.OldLines == 0:
			return bad(
				"hunk %d: it has no line of the file by which its place could be checked",
				i+1,
			)
		case f.IsNew && len(f.TextFragments) > 1:
			return bad("it is new and has more than one hunk")
		}
	}
	return nil
}

// checkComplete refuses lines that belong to no hunk, because a hunk's head counts fewer lines than
// follow it: they would be passed over.
func checkComplete(files []*gitdiff.File, text []byte) error {
	var plus, minus int64
	for line := range bytes.Lines(text) {
		switch {
		case line[0] == '+':
			plus++
		case line[0] == '-' && strings.TrimSpace(string(line)) != "--": // before the signature of a mail
			minus++
		}
	}
	for _, f := range files {
		plus = plus - 1
		minus = minus - 1 // of the head
		for _, hunk := range f.TextFragments {
			plus = plus - hunk.LinesAdded
			minus = minus - hunk.LinesDeleted
			for _, line := range hunk.Lines {
				if line.Op == gitdiff.OpDelete && strings.TrimSpace(line.Line) == "-" {
					minus++
				}
			}
		}
	}
	if plus != 0 || minus != 0 {
		return errors.New(
			"a line begins with + or - and belongs to no hunk: the head of the hunk before it counts fewer lines than it has, or text stands between the files",
		)
	}
	return nil
}

// Files returns the paths that the patch changes.
func (p *Patch) Files() (names []string) {
	for _, f := range p.files {
		names = append(names, f.NewName)
	}
	return names
}

// hunks returns those of a file.
func (p *Patch) hunks(name string) (all []hunk) {
	for _, f := range p.files {
		for i, fragment := range f.TextFragments {
			if f.NewName == name {
				all = append(all, hunk{fragment, p.Name, i + 1, f.IsNew})
			}
		}
	}
	return all
}

// Overlap returns a place that both patches change, in words; "" if there is none.
func (p *Patch) Overlap(other *Patch) string {
	for _, name := range p.Files() {
		all := append(p.hunks(name), other.hunks(name)...)
		if err := inOrder(name, all); err != nil {
			return err.Error()
		}
	}
	return ""
}
