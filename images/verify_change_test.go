package images

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// change is one change of one path of an image. apply returns false for an entry that it does not fit.
type change struct {
	name  string
	apply func(*rootfs.Tree, *rootfs.Entry) (bool, error)
}

// added is the end of the path of a file that a change puts beside an entry.
const added = ".added"

// everyChange is all that can happen to a path: content, mode, owner, target, absence, presence, kind. Times are
// left out, and owner and mode of links: nothing depends on them.
func everyChange() []change {
	all := []change{
		{"target", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			return e.Kind == rootfs.Link, tree.AddLink(e.Path, e.Target+"x")
		}},
		{"gone", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) { return true, tree.Delete(e.Path) }},
		{"a file beside it", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			return true, tree.AddBytes(e.Path+added, 0o644, []byte("x"))
		}},
		{"another kind", func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			if err := tree.Delete(e.Path); err != nil || e.Kind != rootfs.Link {
				return true, errors.Join(err, tree.AddLink(e.Path, "x"))
			}
			return true, tree.AddBytes(e.Path, 0o644, []byte("x"))
		}},
	}
	for name, edit := range map[string]func([]byte) []byte{
		"one byte": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "cut off": func(b []byte) []byte { return b[:len(b)-1] },
		"longer": func(b []byte) []byte { return append(b, '\n') }, "emptied": func([]byte) []byte { return nil },
	} {
		all = append(all, change{name, func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			if e.Kind != rootfs.File || e.Size == 0 {
				return false, nil
			}
			r, err := e.Open()
			if err != nil {
				return true, err
			}
			data, err := io.ReadAll(r)
			if err == nil {
				err = tree.AddBytes(e.Path, e.Mode, edit(data))
			}
			if now, ok := tree.Lstat(e.Path); ok {
				now.UID, now.GID, now.Xattrs = e.UID, e.GID, e.Xattrs
			}
			return true, err
		}})
	}
	for name, edit := range map[string]func(*rootfs.Entry){
		"mode 0000": func(e *rootfs.Entry) { e.Mode = ^e.Mode & 1 }, // another mode than before also if it is 0
		"setuid":    func(e *rootfs.Entry) { e.Mode ^= fs.ModeSetuid }, "writable": func(e *rootfs.Entry) { e.Mode ^= 0o002 },
		"owner": func(e *rootfs.Entry) { e.UID += 1000 }, "group": func(e *rootfs.Entry) { e.GID += 1000 },
	} {
		all = append(all, change{name, func(tree *rootfs.Tree, e *rootfs.Entry) (bool, error) {
			now := *e
			edit(&now)
			return e.Kind != rootfs.Link, tree.Move(&now, e.Path)
		}})
	}
	return all
}

// noticed returns an error unless a finding names the path of a changed entry, or the file that was put beside
// it. The finding has to be an error, or a note where such changes are harmless. For the folders above the list
// of files, which are gone together with it, a finding about the list is enough.
func noticed(findings []verify.Finding, p string) error {
	for _, f := range findings {
		named := f.Path == p || f.Path == p+added || f.Path == recipe.FileList && recipe.InFolder(f.Path, p)
		if named && (f.Severity == verify.Error || verify.Harmless(f.Path, f.Path != p) != "") {
			return nil
		}
	}
	return fmt.Errorf("verify finds no error: it says %v", findings)
}

// TestEveryChange checks that verify finds every change of one path of an image that driver-build made,
// as an error or, in folders where it is harmless, as a note. It takes some seconds, because each change
// is verified.
func TestEveryChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := r.build(t, pair("debian12", newDriver), recipe.Options{})
	config := require.Value(img.ConfigFile())(t)
	whole := treeOf(t, img)
	for _, e := range whole.All() {
		if e.Path == recipe.FileList {
			continue // TestChangedList
		}
		for _, c := range everyChange() {
			tree := whole.Clone()
			if applies := require.Value(c.apply(tree, e))(t); !applies {
				continue
			}
			findings := examined(t, r.b, tree, config)
			assert.NoErrorf(t, noticed(findings, e.Path), "%s, %s", e.Path, c.name)
		}
	}
}

// TestAddedWhereProgramsLook: a file is an error where driver-entrypoint looks, and a note beside it.
func TestAddedWhereProgramsLook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := r.build(t, pair("debian12", newDriver), recipe.Options{})
	config := require.Value(img.ConfigFile())(t)
	whole := treeOf(t, img)
	for name, want := range map[string]verify.Severity{
		"run/modprobe.d/x.conf": verify.Error, "var/tmp/nvidia-driver-headers/6.1.0/Makefile": verify.Error,
		"run/mellanox/drivers/.driver-ready": verify.Error, "opt/nvidia/nvlsm/sbin/nvlsm": verify.Error,
		"opt/rh/gcc-toolset-13/root/usr/bin/gcc": verify.Error, "mnt/shared-nvidia-driver-toolkit/dir_prepared": verify.Error,
		"run/secrets/redhat.repo": verify.Error, "run/lock/x": verify.Note, "opt/site/agent": verify.Note, "var/tmp/x": verify.Note,
	} {
		tree := whole.Clone()
		require.NoError(t, tree.AddBytes(name, 0o644, []byte("x\n")))
		found := slices.ContainsFunc(examined(t, r.b, tree, config), func(f verify.Finding) bool {
			return f.Rule == "files" && f.Path == name && f.Severity == want
		})
		assert.Equalf(t, true, found, "%s is no %s", name, want)
	}
}

// TestChangedList: the list of files cannot be changed unnoticed, nor can it be left out of one of its
// two places.
func TestChangedList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := r.build(t, pair("debian12", newDriver), recipe.Options{})
	config := require.Value(img.ConfigFile())(t)
	whole := treeOf(t, img)
	list, ok := whole.Lstat(recipe.FileList)
	if !ok {
		t.Fatal("the image has no list of its files")
	}
	for _, c := range []struct {
		name, want string
		apply      func(*rootfs.Tree, *v1.ConfigFile) error
	}{
		{"changed", "the image's label says", func(tree *rootfs.Tree, _ *v1.ConfigFile) error {
			text := strings.Replace(read(t, tree, recipe.FileList), "mode=0755", "mode=0777", 1)
			return tree.AddBytes(recipe.FileList, 0o644, []byte(text))
		}},
		{"gone", "file does not exist", func(tree *rootfs.Tree, _ *v1.ConfigFile) error { return tree.Delete(recipe.FileList) }},
		{"unlabelled", "no label of the image has the digest", func(_ *rootfs.Tree, c *v1.ConfigFile) error {
			delete(c.Config.Labels, recipe.LabelFiles)
			return nil
		}},
		{"a link", "", func(tree *rootfs.Tree, _ *v1.ConfigFile) error {
			if err := tree.Move(list, recipe.FileList+"2"); err != nil {
				return err
			}
			return tree.AddLink(recipe.FileList, "files.mtree2")
		}},
		{"large", "larger than", func(tree *rootfs.Tree, _ *v1.ConfigFile) error {
			const size = 129 << 20
			return tree.AddFile(recipe.FileList, 0o644, size, io.LimitReader(zeros{}, size))
		}},
	} {
		tree, changed := whole.Clone(), config.DeepCopy()
		require.NoError(t, c.apply(tree, changed))
		findings := examined(t, r.b, tree, changed)
		if !slices.ContainsFunc(findings, func(f verify.Finding) bool {
			return f.Rule == "files" && f.Severity == verify.Error && strings.Contains(f.Message, c.want)
		}) {
			t.Errorf("%s: want an error with %q, got %v", c.name, c.want, findings)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
