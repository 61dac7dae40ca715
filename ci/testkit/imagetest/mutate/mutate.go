// Package mutate changes images in every way that verify has to notice. The tests with a synthetic image and
// those with real ones share it.
package mutate

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// Mutation is one change of one path of an image.
type Mutation struct {
	Name string
	// Apply changes the path of an entry in the tree. applies is false if the mutation is not for such an entry.
	Apply func(tree *rootfs.Tree, e *rootfs.Entry) (applies bool, err error)
}

// Added is what a mutation appends to the path of an entry for a new file beside it.
const Added = ".added"

// All are all that can happen to a path: content, mode, owner, target, absence, presence, kind. Times are
// left out, and owner and mode of links: nothing depends on them.
func All() []Mutation {
	list := []Mutation{
		content("one byte", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		content("cut off", func(b []byte) []byte { return b[:len(b)-1] }),
		content("longer", func(b []byte) []byte { return append(b, '\n') }),
		content("emptied", func([]byte) []byte { return nil }),
		meta("mode 0000", func(e *rootfs.Entry) { e.Mode = ^e.Mode & 1 }), // another mode than before also if it is 0
		meta("setuid", func(e *rootfs.Entry) { e.Mode ^= fs.ModeSetuid }),
		meta("writable", func(e *rootfs.Entry) { e.Mode ^= 0o002 }),
		meta("owner", func(e *rootfs.Entry) { e.UID += 1000 }),
		meta("group", func(e *rootfs.Entry) { e.GID += 1000 }),
	}
	return append(list,
		Mutation{"target", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			if e.Kind != rootfs.Link {
				return false, nil
			}
			return true, tree.AddLink(e.Path, e.Target+"x")
		}},
		Mutation{"gone", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) { return true, tree.Delete(e.Path) }},
		Mutation{"a file beside it", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			return true, tree.AddBytes(e.Path+Added, 0o644, []byte("x"))
		}},
		Mutation{"another kind", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			if err := tree.Delete(e.Path); err != nil {
				return true, err
			}
			if e.Kind == rootfs.Link {
				return true, tree.AddBytes(e.Path, 0o644, []byte("x"))
			}
			return true, tree.AddLink(e.Path, "x")
		}})
}

func content(name string, edit func([]byte) []byte) Mutation {
	return Mutation{name, func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
		if e.Kind != rootfs.File || e.Size == 0 {
			return false, nil
		}
		r, err := e.Open()
		if err != nil {
			return true, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return true, err
		}
		data = edit(data)
		if err := tree.AddFile(e.Path, e.Mode, int64(len(data)), bytes.NewReader(data)); err != nil {
			return true, err
		}
		changed, _ := tree.Lstat(e.Path)
		changed.UID, changed.GID, changed.Xattrs = e.UID, e.GID, e.Xattrs
		return true, nil
	}}
}

func meta(name string, edit func(*rootfs.Entry)) Mutation {
	return Mutation{name, func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
		if e.Kind == rootfs.Link {
			return false, nil
		}
		changed := *e
		edit(&changed)
		return true, tree.Move(&changed, e.Path)
	}}
}

// Noticed returns an error unless a finding names the path of a mutated entry, or the file that was put
// beside it. The finding has to be an error, or a note where such changes are harmless. For the folders above
// the list of files, which are gone together with it, a finding about the list is enough.
func Noticed(findings []verify.Finding, p string) error {
	var said strings.Builder
	for _, f := range findings {
		if f.Path != p && f.Path != p+Added && (f.Path != recipe.FileList || !recipe.InFolder(f.Path, p)) {
			continue
		}
		if f.Severity == verify.Error || verify.Harmless(f.Path, f.Path != p) != "" {
			return nil
		}
		fmt.Fprintf(&said, "%s; ", f)
	}
	return fmt.Errorf("verify finds no error: it says %q", said.String())
}
