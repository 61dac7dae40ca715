package batch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link stays a link, and a change of somebody else is not lost.
func TestReplaceText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceText(link, []byte("old"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if err := ReplaceText(file, []byte("old"), []byte("lost")); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a change of the meantime: %v", err)
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}
