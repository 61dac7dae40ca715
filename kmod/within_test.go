package kmod

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	root := testfile.Tree(t, t.TempDir(), map[string]string{"etc/passwd": "", "a/up": "-> ../../../../../../etc", "a/absolute": "-> /etc/passwd"})
	for path, want := range map[string]string{
		"a/up/passwd": "etc/passwd", "a/absolute": "etc/passwd", "../../etc": "etc", "/": "", "a/../etc/./passwd": "etc/passwd", "etc/missing": "-",
	} {
		got, err := Within(root, path)
		if want == "-" {
			assert.ErrorIsf(t, err, fs.ErrNotExist, "%s", path)
			continue
		}
		if err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
}
