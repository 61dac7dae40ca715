package patch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// MaxSource bounds a file that is changed, in bytes; the largest of the driver's sources has 0.3 MB.
const MaxSource = 4 << 20

// hunk is a hunk of one file.
type hunk struct {
	*gitdiff.TextFragment

	patch  string
	number int // in its file, from 1
	isNew  bool
}

// Error says that a hunk does not fit to the text that is to be changed.
type Error struct {
	Patch, File string
	Hunk        int
	Line        int64  // of the file
	Want, Got   string // of that line; Got is "" behind the end of the file
	Elsewhere   int64  // the line at which the whole hunk would fit, 0 for none
	Done        bool   // the file has the change already
}

// Error says where it is, what was expected, and what can be done.
func (e *Error) Error() string {
	text := fmt.Sprintf("patch %s: %s, hunk %d: line %d is %.120q and should be %.120q", e.Patch, e.File, e.Hunk, e.Line, e.Got, e.Want)
	switch {
	case e.Done:
		return text + ": these sources have the change already: take the patch out, or say with sources which ones need it"
	case e.Elsewhere > 0:
		return fmt.Sprintf("%s: the hunk would fit at line %d: the patch is for other sources: make it again from these, or say with sources which ones it is for", text, e.Elsewhere)
	}
	return text + ": the patch is for another version of the driver or for other sources: make it again from these"
}

// Apply applies all patches that change a file, each of them made from this very text, which is nil for a
// file that is not there. changed is false if none changes it. A text that a hunk does not fit is an *Error.
func Apply(patches []*Patch, name string, text []byte) (result []byte, changed bool, err error) {
	var all []hunk
	for _, p := range patches {
		all = append(all, p.hunks(name)...)
	}
	if len(all) == 0 {
		return text, false, nil
	}
	if err := inOrder(name, all); err != nil {
		return nil, false, err
	}
	switch {
	case len(text) > MaxSource:
		return nil, false, fmt.Errorf("patch %s: %s has %d bytes, more than %d", all[0].patch, name, len(text), MaxSource)
	case all[0].isNew && text != nil:
		return nil, false, fmt.Errorf("patch %s: %s is new in it, and the sources have such a file", all[0].patch, name)
	case !all[0].isNew && text == nil:
		return nil, false, fmt.Errorf("patch %s: the sources have no %s: the patch is for another version of the driver or another flavour", all[0].patch, name)
	}
	var out bytes.Buffer
	applier := gitdiff.NewTextApplier(&out, bytes.NewReader(text))
	for _, h := range all {
		if err := applier.ApplyFragment(h.TextFragment); err != nil {
			return nil, false, explain(name, text, h, err)
		}
	}
	if err := applier.Close(); err != nil {
		return nil, false, fmt.Errorf("patch %s: %s: %w", all[0].patch, name, err)
	}
	return out.Bytes(), true, nil
}

// inOrder sorts the hunks of a file and refuses two that change the same lines.
func inOrder(name string, all []hunk) error {
	slices.SortStableFunc(all, func(a, b hunk) int { return cmp.Compare(a.OldPosition, b.OldPosition) })
	for i := range all[1:] {
		a, b := all[i], all[i+1]
		if a.isNew || b.isNew || a.OldPosition+a.OldLines > b.OldPosition {
			return fmt.Errorf("%s: hunk %d of patch %s and hunk %d of patch %s both have its line %d: make one patch of both",
				name, a.number, a.patch, b.number, b.patch, b.OldPosition)
		}
	}
	return nil
}

// explain makes an *Error of the library's error.
func explain(name string, text []byte, h hunk, err error) error {
	failed, ok := errors.AsType[*gitdiff.ApplyError](err)
	if !ok || !errors.Is(err, &gitdiff.Conflict{}) {
		return fmt.Errorf("patch %s: %s, hunk %d: %w", h.patch, name, h.number, err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	var old, changed []string
	for _, l := range h.Lines {
		if l.Old() {
			old = append(old, l.Line)
		}
		if l.New() {
			changed = append(changed, l.Line)
		}
	}
	e := &Error{Patch: h.patch, File: name, Hunk: h.number, Line: failed.Line}
	if at := failed.FragmentLine - 1; at >= 0 && at < len(h.Lines) {
		e.Want = h.Lines[at].Line
	} else { // the file ends before the hunk does
		e.Line = max(int64(len(lines)), h.OldPosition)
		e.Want = old[min(max(e.Line-h.OldPosition, 0), int64(len(old)-1))]
	}
	if e.Line >= 1 && e.Line <= int64(len(lines)) {
		e.Got = lines[e.Line-1]
	}
	e.Elsewhere = find(lines, old)
	e.Done = fits(lines, changed, h.OldPosition-1) || find(lines, changed) > 0 && e.Elsewhere == 0
	return e
}

// find returns the first line, from 1, at which a text has all of some lines; 0 for none.
func find(lines, some []string) int64 {
	for i := range lines {
		if fits(lines, some, int64(i)) {
			return int64(i) + 1
		}
	}
	return 0
}

func fits(lines, some []string, at int64) bool {
	return at >= 0 && at+int64(len(some)) <= int64(len(lines)) && slices.Equal(lines[at:at+int64(len(some))], some)
}
