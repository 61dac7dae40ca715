package fetch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a b")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for value, want := range map[string]string{
		"https://h.example/x.run": "https://h.example/x.run", "http://h.example:80/a%20b": "http://h.example:80/a%20b", "file:///x": "file:///x",
		file: "file://" + dir + "/a%20b",
	} {
		assert.Equalf(t, want, require.Value(Address("--x", value))(t), "%q", value)
	}
	for value, says := range map[string]string{
		"": "folder", dir: "a folder", "/none": "/none", "ftp://h.example/x": "scheme ftp", "https:///x": "no host", "https://h.example/a b": "blank", "://": "--x",
		"http://me:secret@h.example/\x01": "", "http://me:secret@[h.example/x": "",
	} {
		_, err := Address("--x", value)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--x") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", value, err, says)
		}
	}
	assert.ErrorContains(t, CheckURL("h.example/x"), "it is no URL")
}
