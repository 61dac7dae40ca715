package helmchart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

func content(t *testing.T, b oci.Blob) []byte {
	t.Helper()
	return require.Value(oci.ReadBlob(b, maxChart))(t)
}

// TestOurs makes the artifact of this project's chart from its folder, from a copy with other times, and from
// its archive: one digest.
func TestOurs(t *testing.T) {
	t.Parallel()
	const ours = "../../deploy/chart"
	c := require.Value(Read(ours))(t)
	assert.Equal(t, "nvidia-driver", c.Name)
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(ours)))
	require.NoError(t, os.Chtimes(filepath.Join(dir, chartFile), time.Now(), time.Now()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.tgz"), []byte("ignored"), 0o600))
	again := require.Value(Read(dir))(t)
	assert.Equal(t, c.Content.Top().Desc.Digest, again.Content.Top().Desc.Digest)

	archive := filepath.Join(t.TempDir(), "c.tgz")
	require.NoError(t, os.WriteFile(archive, content(t, c.Content.Blobs[0]), 0o600))
	again = require.Value(Read(archive))(t)
	assert.Equal(t, c.Content.Top().Desc.Digest, again.Content.Top().Desc.Digest)

	var config struct{ Name, Version, KubeVersion string }
	require.NoError(t, json.Unmarshal(content(t, c.Content.Blobs[1]), &config))
	assert.Equal(t, c.Version, config.Version)
	assert.Equal(t, ">=1.23.0-0", config.KubeVersion)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"it has no Chart.yaml": {"values.yaml": "a: 1"},
		"is malformed":         {chartFile: "name: [x"},
		"no name and version":  {chartFile: "name: ../../x\nversion: 1.0.0"},
		"is not supported":     {chartFile: "name: x\nversion: 1.0.0", ".helmignore": "!x"},
	} {
		dir := t.TempDir()
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		assert.ErrorContains(t, assert.Err(Read(dir)), want)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, chartFile), []byte("name: x\nversion: 1.0.0"), 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "x")))
	assert.ErrorContains(t, assert.Err(Read(dir)), "no regular file")
	assert.ErrorContains(t, assert.Err(Read("/etc/hostname")), "neither a folder nor an archive")
}
