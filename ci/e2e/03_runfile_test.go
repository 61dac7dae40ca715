package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/makeself"
	"github.com/driver-container/driver-container/ci/require"
)

// A .run archive made of a real driver, in each compression, results in the same driver as Debian's packages.
func Test03Runfile(t *testing.T) {
	journey(t)
	for _, c := range []struct{ system, driver, compression string }{
		{"debian12", "535.261.03", "zstd"},
		{"debian12", "470.256.02", "gzip"},
		{"debian11", "418.226.00", "xz"},
	} {
		t.Run(c.driver+" "+c.compression, func(t *testing.T) {
			packaged := debian(t, c.system, c.driver)
			dir := scratch(t)
			archive := generate(t, packaged.driverTree(t), c.driver, c.compression, dir)
			server := httptest.NewServer(http.FileServer(http.Dir(dir)))
			defer server.Close()
			matrix := writeMatrix(t, c.system, c.driver, server.URL+"/"+filepath.Base(archive), archive)
			out := image{dir: filepath.Join(scratch(t), "dist"), tag: c.driver + "-" + c.system}
			r := command{args: []string{program(t), "--progress", "plain", "--matrix", matrix, "--os", c.system, "--driver", c.driver,
				"--base", base(t, c.system, "amd64"), "--output", "oci:" + out.dir}}.want(t, 0)
			out.digest = digest(t, r)
			t.Logf("built from the archive in %.1f s", r.took.Seconds())
			command{args: []string{program(t), "verify", out.ref()}}.want(t, 0)
			for _, layer := range []string{"user-mode driver", "kernel sources"} {
				assert.Samef(t, driverPaths(packaged.contents(t, layer)), driverPaths(out.contents(t, layer)), "%s layer: -packages +archive", layer)
			}
			if c.compression != "zstd" { // once is enough
				return
			}
			// The same files as an archive of NVIDIA's redist folder: the same layers, byte for byte.
			redist := generateRedist(t, packaged.driverTree(t), c.driver, dir)
			matrix = writeMatrix(t, c.system, c.driver, server.URL+"/"+filepath.Base(redist), redist)
			other := image{dir: filepath.Join(scratch(t), "dist"), tag: out.tag}
			r = command{args: []string{program(t), "--progress", "plain", "--matrix", matrix, "--os", c.system, "--driver", c.driver,
				"--base", base(t, c.system, "amd64"), "--output", "oci:" + other.dir}}.want(t, 0)
			other.digest = digest(t, r)
			t.Logf("built from the redist archive in %.1f s", r.took.Seconds())
			for _, layer := range []string{"user-mode driver", "kernel sources"} {
				want, got := require.Value(out.layer(t, layer).Digest())(t), require.Value(other.layer(t, layer).Digest())(t)
				assert.Equalf(t, want, got, "%s layer: digest", layer)
			}
		})
	}
}

// driverPaths drops what must differ: an archive has no copyright files of Debian's packages, and its
// dkms.conf is a template that the installation fills in.
func driverPaths(all map[string]string) map[string]string {
	kept := map[string]string{}
	for name, what := range all {
		if what != "dir" && !strings.HasPrefix(name, "licenses/") && !strings.HasSuffix(name, "/dkms.conf") {
			kept[name] = what
		}
	}
	return kept
}

// generate writes a .run archive of a driver's tree into dir.
func generate(t *testing.T, tree, driver, compression, dir string) string {
	t.Helper()
	a, skipped, err := makeself.FromTree(os.DirFS(tree), driver, "x86_64")
	require.NoError(t, err)
	for _, name := range skipped {
		if !strings.HasPrefix(name, "licenses/") && name != "usr/lib/firmware/nvidia/"+driver { // a link to the firmware
			t.Errorf("the generator has no place for %s", name)
		}
	}
	a.Compression, a.Fast = compression, true
	file := filepath.Join(dir, a.Name())
	require.NoError(t, a.WriteFile(t.Context(), file))
	return file
}

// generateRedist writes an archive of NVIDIA's redist folder of a driver's tree into dir.
func generateRedist(t *testing.T, tree, driver, dir string) string {
	t.Helper()
	a, _, err := makeself.FromTree(os.DirFS(tree), driver, "x86_64")
	require.NoError(t, err)
	a.Fast = true
	file := filepath.Join(dir, a.RedistName())
	require.NoError(t, a.WriteRedistFile(t.Context(), file))
	return file
}

// writeMatrix writes a matrix of one system and one driver, whose only source is an archive with this file's
// checksum.
func writeMatrix(t *testing.T, system, driver, url, file string) string {
	t.Helper()
	f := require.Value(os.Open(file))(t)
	defer f.Close() //nolint:errcheck // read only
	sum := sha256.New()
	size := require.Value(io.Copy(sum, f))(t)
	components := ""
	if strings.HasPrefix(system, "debian") {
		components = "\n    components: [contrib, non-free]"
	}
	text := fmt.Sprintf(`systems:
  - id: %s
    base: registry.invalid/base:latest
    archs: [amd64]
    kernels: [4.4]%s
drivers:
  - version: %s
    archives:
      amd64: {url: "%s", sha256: %s, size: %d}
`, system, components, driver, url, hex.EncodeToString(sum.Sum(nil)), size)
	name := filepath.Join(scratch(t), "matrix.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}
