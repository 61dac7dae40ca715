package images

import (
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest/mutate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

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
		for _, m := range mutate.All() {
			tree := whole.Clone()
			applies := require.Value(m.Apply(tree, e))(t)
			if !applies {
				continue
			}
			findings := require.Value(examiner(r.b).Examine(t.Context(), tree, config))(t)
			assert.NoErrorf(t, mutate.Noticed(findings, e.Path), "%s, %s", e.Path, m.Name)
		}
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
		findings := require.Value(examiner(r.b).Examine(t.Context(), tree, changed))(t)
		if !slices.ContainsFunc(findings, func(f verify.Finding) bool {
			return f.Rule == "files" && f.Severity == verify.Error && strings.Contains(f.Message, c.want)
		}) {
			t.Errorf("%s: want an error with %q, got %v", c.name, c.want, findings)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
