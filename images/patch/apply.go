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

// MaxSource bounds a file that is changed, in bytes; the largest of the driver's sources has 0.3
// MB.
const MaxSource = 4 << 20

// hunk is a hunk of one file.
type hunk struct {
	*gitdiff.TextFragment

	patch  string
	number int // in its file, from 1
	isNew  bool
}

// Apply applies all patches that change a file, each of them made from this very text, which is nil
// for a file that is not there. The error of a hunk that does not fit says where it is, what was
// expected, and what can be done.
func Apply(patches []*Patch, name string, text []byte) (result []byte, err error) {
	var all []hunk
	for _, p := range patches {
		all = append(all, p.hunks(name)...)
	}
	if len(all) == 0 {
		return text, nil
	}
	if err := inOrder(name, all); err != nil {
		return nil, err
	}
	switch {
	case len(text) > MaxSource:
		return nil, fmt.Errorf(
			"patch %s: %s has %d bytes, more than %d",
			all[0].patch,
			name,
			len(text),
			MaxSource,
		)
	case all[0].isNew && text != nil:
		return nil, fmt.Errorf(
			"patch %s: %s is new in it, and the sources have such a file",
			all[0].patch,
			name,
		)
	case !all[0].isNew && text == nil:
		return nil, fmt.Errorf(
			"patch %s: the sources have no %s: the patch is for another version of the driver or another flavour",
			all[0].patch,
			name,
		)
	}
	var out bytes.Buffer
	applier := gitdiff.NewTextApplier(&out, bytes.NewReader(text))
	for _, h := range all {
		if err := applier.ApplyFragment(h.TextFragment); err != nil {
			return nil, explain(name, text, h, err)
		}
	}
	if err := applier.Close(); err != nil {
		return nil, fmt.Errorf("patch %s: %s: %w", all[0].patch, name, err)
	}
	return out.Bytes(), nil
}

// inOrder sorts the hunks of a file and refuses two that change the same lines.
func inOrder(name string, all []hunk) error {
	slices.SortStableFunc(
		all,
		func(a, b hunk) int { return cmp.Compare(a.OldPosition, b.OldPosition) },
	)
	for i := range all[1:] {
		a := all[i]
		b := all[i+1]
		if a.isNew || b.isNew || a.OldPosition+a.OldLines > b.OldPosition {
			return fmt.Errorf(
				"%s: hunk %d of patch %s and hunk %d of patch %s both have its line %d: make one patch of both",
				name,
				a.number,
				a.patch,
				b.number,
				b.patch,
				b.OldPosition,
			)
		}
	}
	return nil
}

// explain says more than the library's error.
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
	line := failed.Line
	want := ""
	got := ""
	if at := failed.FragmentLine - 1; at >= 0 && at < len(h.Lines) {
		want = h.Lines[at].Line
	} else { // the file ends before the hunk does
		line = max(int64(len(lines)), h.OldPosition)
		want = old[min(max(line-h.OldPosition, 0), int64(len(old)-1))]
	}
	if line >= 1 && line <= int64(len(lines)) {
		got = lines[line-1]
	}
	elsewhere := find(lines, old)
	do := "the patch is for another version of the driver or for other sources: make it again from these"
	switch {
	case fits(lines, changed, h.OldPosition-1) || find(lines, changed) > 0 && elsewhere == 0:
		do = "these sources have the change already: take the patch out, or say with sources which ones need it"
	case elsewhere > 0:
		do = fmt.Sprintf("the hunk would fit at line %d: the patch is for other sources: "+
			"make it again from these, or say with sources which ones it is for", elsewhere)
	}
	return fmt.Errorf(
		"patch %s: %s, hunk %d: line %d is %.120q and should be %.120q: %s",
		h.patch,
		name,
		h.number,
		line,
		got,
		want,
		do,
	)
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
	return at >= 0 && at+int64(len(some)) <= int64(len(lines)) &&
		slices.Equal(lines[at:at+int64(len(some))], some)
}
