package kmod

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"etc/passwd": "", "a/up": "-> ../../../../../../etc", "a/absolute": "-> /etc/passwd"})
	for path, want := range map[string]string{
		"a/up/passwd": "etc/passwd", "a/absolute": "etc/passwd", "../../etc": "etc", "/": "", "a/../etc/./passwd": "etc/passwd", "etc/missing": "-",
	} {
		got, err := Within(root, path)
		if want == "-" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
}
