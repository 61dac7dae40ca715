package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A link stays a link, and a change of somebody else is not lost.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := Edit(link, []byte("old"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Edit(file, []byte("old"), []byte("lost")); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a change of the meantime: %v", err)
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "new" {
		t.Errorf("%q, %v", text, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if err := CheckEdit(link); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{"/dev/null": "no regular file", dir: "no regular file", filepath.Join(dir, "none", "x"): "create it first"} {
		if err := CheckEdit(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
