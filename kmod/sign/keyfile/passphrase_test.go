package keyfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestPassphraseFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	assert.Equal(t, " pass word ", string(require.Value(PassphraseFile(put("a", " pass word \r\n"))())(t)))
	if _, err := PassphraseFile(put("b", strings.Repeat("x", maxPassphrase+1)))(); err == nil || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a large one: %v", err)
	}
	assert.ErrorIsf(t, assert.Err(PassphraseFile(filepath.Join(dir, "none"))()), os.ErrNotExist, "none")
}
