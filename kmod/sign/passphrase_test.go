package sign

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassphraseFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if got, err := PassphraseFile(put("a", " pass word \r\n"))(); err != nil || string(got) != " pass word " {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := PassphraseFile(put("b", strings.Repeat("x", maxPassphrase+1)))(); err == nil || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a large one: %v", err)
	}
	if _, err := PassphraseFile(filepath.Join(dir, "none"))(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}
