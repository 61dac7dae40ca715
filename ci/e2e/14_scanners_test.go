package e2e

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/peers/supplychain"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// Test14Scanners: in images with and without a distribution, of Debian's packages and of rpms, syft sees the packages
// that driver-build's bill of materials lists. Both syft and trivy read them in it, and trivy the system too.
func Test14Scanners(t *testing.T) {
	root := journey(t)
	thin := image{dir: filepath.Join(scratch(t), "thin"), tag: thinDriver + "-debian12"}
	command{dir: root, args: []string{"ci/image", "--os", "debian12", "--driver", thinDriver, "--no-toolchain", "--output", "oci:" + thin.dir}}.want(t, 0)
	kernel := lab.Kernel(t, "debian12")
	rpms := rocky(t, realrepo.Headers{Root: kernel.Root, Release: kernel.Release}).build(t, filepath.Join(scratch(t), "rpm"))
	for _, c := range []struct {
		image  image
		system string
	}{{debian(t, "debian12", thinDriver), "debian 12"}, {thin, "debian 12"}, {rpms, "rocky 9.4"}} {
		seen := supplychain.Installed(t, supplychain.SyftScans(t, c.image.dir))
		t.Logf("%s: %d packages", c.image.ref(), len(seen))
		for _, format := range []string{"spdx", "cyclonedx"} {
			sbom := testfile.Write(t, filepath.Join(scratch(t), "sbom.json"), sh(t, program(t), "sbom", c.image.ref(), "-o", format))
			assert.Samef(t, seen, supplychain.Installed(t, supplychain.SyftReads(t, sbom)), "%s, as syft reads it", format)
			system, read := supplychain.TrivyReads(t, sbom)
			assert.Equal(t, c.system, system)
			assert.Samef(t, seen, supplychain.Installed(t, read), "%s, as trivy reads it", format)
		}
		assert.NoError(t, supplychain.Validate(t, supplychain.Layout, c.image.dir))
	}
}
