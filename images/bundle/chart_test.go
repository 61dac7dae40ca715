package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
)

// TestChart makes the artifact of this project's chart from its folder, from a copy with other times, and from
// its archive: one digest.
func TestChart(t *testing.T) {
	t.Parallel()
	const ours = "../../deploy/chart"
	c := require.Value(bundle.ReadChart(bundletest.Origin, ours))(t)
	assert.Equal(t, bundletest.Origin+"/charts/nvidia-driver", c.Repository)
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(ours)))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "Chart.yaml"), time.Now(), time.Now()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.tgz"), []byte("ignored"), 0o600))
	again := require.Value(bundle.ReadChart(bundletest.Origin, dir))(t)
	assert.Equal(t, c.Content.Top().Desc.Digest, again.Content.Top().Desc.Digest)

	archive := filepath.Join(t.TempDir(), "c.tgz")
	require.NoError(t, os.WriteFile(archive, require.Value(oci.ReadBlob(c.Content.Blobs[0], 1<<20))(t), 0o600))
	again = require.Value(bundle.ReadChart(bundletest.Origin, archive))(t)
	assert.Equal(t, c.Content.Top().Desc.Digest, again.Content.Top().Desc.Digest)

	var config struct{ Name, Version, KubeVersion string }
	require.NoError(t, json.Unmarshal(require.Value(oci.ReadBlob(c.Content.Blobs[1], 1<<20))(t), &config))
	assert.Same(t, []string{config.Version}, c.Tags)
	assert.Equal(t, ">=1.23.0-0", config.KubeVersion)
}

func TestChartRefused(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"Chart.yaml: no such": {"values.yaml": "a: 1"},
		"is malformed":        {"Chart.yaml": "name: [x"},
		"no name and version": {"Chart.yaml": "name: ../../x\nversion: 1.0.0"},
	} {
		dir := t.TempDir()
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		assert.ErrorContains(t, assert.Err(bundle.ReadChart(bundletest.Origin, dir)), want)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("name: x\nversion: 1.0.0"), 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "x")))
	assert.ErrorContains(t, assert.Err(bundle.ReadChart(bundletest.Origin, dir)), "no regular file")
	assert.ErrorContains(t, assert.Err(bundle.ReadChart(bundletest.Origin, "/etc/hostname")), "neither a folder nor an archive")
	// an archive whose Chart.yaml would be a whole one where it is cut
	require.NoError(t, os.Remove(filepath.Join(dir, "x")))
	chart := require.Value(bundle.ReadChart(bundletest.Origin, dir))(t)
	assert.Same(t, []string{"1.0.0"}, chart.Tags)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	meta := "name: x\nversion: 1.0.0\n#" + strings.Repeat(" ", 1<<20) + "\nversion: 2.0.0\n"
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x/Chart.yaml", Size: int64(len(meta))}))
	require.Value(io.WriteString(w, meta))(t)
	require.NoError(t, errors.Join(w.Close(), z.Close()))
	file := filepath.Join(dir, "x.tgz")
	require.NoError(t, os.WriteFile(file, packed.Bytes(), 0o600))
	assert.ErrorContains(t, assert.Err(bundle.ReadChart(bundletest.Origin, file)), "larger than")
}
