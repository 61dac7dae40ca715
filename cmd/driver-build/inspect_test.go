package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/images/verify"
)

// TestInspectPullsNoLayer: manifest and config are enough for what an image says of itself. Its layers are
// read with --deep only, which finds the same.
func TestInspectPullsNoLayer(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	repository := u.Host + "/gpu/driver"
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--push", "--repository", repository).Want(t, 0)
	image := repository + ":" + newDriver + "-debian12"
	see := func(flags ...string) (i verify.Inspection, blobs int) {
		u.Cache = t.TempDir() // another machine
		before := u.Requests("/blobs/")
		r := u.Run(t, append([]string{"inspect", image, "-o", "json"}, flags...)...).Want(t, 0)
		goldentest.Schema(t, "inspect.schema.json", r.Stdout)
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &i))
		return i, u.Requests("/blobs/") - before
	}
	quick, blobs := see()
	assert.Equalf(t, 1, blobs, "blobs: the config")
	deep, blobs := see("--deep")
	assert.Equalf(t, true, blobs >= 4, "--deep asked for %d blobs", blobs)
	assert.Equalf(t, true, deep.Deep && len(deep.Packages) > 0 && len(deep.Libraries) > 0, "--deep: %+v", deep)
	deep.Deep, deep.Libraries, deep.Programs, deep.Lacks, deep.Firmware, deep.Packages, deep.Description = false, nil, nil, nil, nil, nil, nil
	assert.Samef(t, deep, quick, "what labels and files say (-files +labels)")

	// An image that is none of ours has no such labels.
	r := u.Run(t, "inspect", u.Base("debian12")).Want(t, 0, "note: the image's labels do not name its driver: inspect --deep")
	assert.Contains(t, r.Stdout, "Driver   unknown")
}

// sbom prints the document of an image and reads it with SPDX's own library.
func (u *user) sbom(t *testing.T, args ...string) (*spdx.Document, string) {
	t.Helper()
	r := u.Run(t, append([]string{"sbom"}, args...)...).Want(t, 0)
	doc := require.Value(spdxjson.Read(strings.NewReader(r.Stdout)))(t)
	require.NoError(t, spdxlib.ValidateDocument(doc))
	return doc, r.Stdout
}

// TestSBOM: an image has the same document wherever it is; that of an index has all architectures.
func TestSBOM(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	layout, archive, docker := "oci:"+u.Path("dist"), "oci-archive:"+u.Path("image.oci.tar"), "docker-archive:"+u.Path("image.tar")
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", layout, "--output", archive, "--output", docker).Want(t, 0)
	_, want := u.sbom(t, layout)
	_, same := u.sbom(t, archive)
	assert.Same(t, want, same)
	assert.Equal(t, 0, strings.Count(want, "VARIANT_OF"))
	doc, _ := u.sbom(t, docker) // it has a manifest of its own, so another digest
	assert.Equalf(t, strings.Count(want, `"SPDXID": `)-1, len(doc.Packages), "packages")
	index := "oci:" + u.Path("index")
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64,arm64", "--output", index).Want(t, 0)
	_, text := u.sbom(t, index)
	assert.Equal(t, 2, strings.Count(text, "VARIANT_OF"))
	_, text = u.sbom(t, index, "--arch", "arm64")
	assert.Equalf(t, false, strings.Contains(text, "amd64"), "the document for arm64 has amd64")
	r := u.Run(t, "sbom", layout, "--format", "cyclonedx").Want(t, 0)
	var cdx struct{ BOMFormat, SpecVersion string }
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &cdx))
	assert.Equal(t, "CycloneDX 1.6", cdx.BOMFormat+" "+cdx.SpecVersion)
}

// TestGuest: a vGPU guest driver comes from a local file with a checksum of its own. Its image goes to a
// private registry and to no public one: not from a build, not with the layers of a cache, not by push, sign
// or bundle import. The refusal comes before anything is downloaded.
func TestGuest(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	data := imagetest.Run(t, newDriver, "amd64", append(imagetest.DriverFiles(newDriver, "amd64"), imagetest.GuestFiles(newDriver, "amd64")...), nil)
	archive := u.file(t, "NVIDIA-Linux-x86_64-"+newDriver+"-grid-azure.run", string(data))
	systems, _, _ := strings.Cut(u.Matrix(), "drivers:")
	file := u.file(t, "guest.yaml", fmt.Sprintf("%sdrivers:\n  - version: %s\n    vgpu: azure\n    archives: {amd64: {url: file://%s, sha256: %x}}\n",
		systems, newDriver, archive, sha256.Sum256(data)))
	build := []string{"--matrix", file, "--os", "debian12", "--driver", newDriver}
	with := func(more ...string) []string { return append(build[:len(build):len(build)], more...) }
	const refusal = "violates NVIDIA's vGPU EULA"
	before := u.Requests("")
	u.Run(t, with("--push", "--repository", "ghcr.io/me/driver")...).Want(t, 2, refusal, "535.261.03-debian12 has a driver for vGPU guests (licence: azure)")
	u.Run(t, with("--output", "oci:"+u.Path("x"), "--cache-to", "docker.io/me/cache")...).Want(t, 2, refusal)
	assert.Equalf(t, before, u.Requests(""), "requests of refused builds")

	place := "oci:" + u.Path("dist")
	u.Run(t, with("--output", place, "--push", "--repository", u.Host+"/team/driver", "--sbom")...).Want(t, 0)
	image := place + ":" + newDriver + "-debian12"
	u.Run(t, "verify", image).Want(t, 0)
	for said, args := range map[string][]string{
		"for vGPU guests, licence: azure": {"inspect", image}, "LicenseRef-NVIDIA-vGPU": {"sbom", image}, "vGPU azure": {"list", "--matrix", file, "--os", "debian12"},
	} {
		assert.Contains(t, u.Run(t, args...).Want(t, 0).Stdout, said)
	}
	u.Run(t, "push", image, "quay.io/me/driver").Want(t, 2, refusal)
	u.Run(t, "push", u.Host+"/team/driver:"+newDriver+"-debian12", "quay.io/me/driver").Want(t, 2, refusal)
	u.Run(t, "push", image, u.Host+"/other/driver").Want(t, 0)
	pair := testcert.Authority("modules")
	key := u.file(t, "key.pem", pair.KeyPEM()+pair.CertPEM())
	u.Run(t, "sign-modules", image, "--module-key", key, "--push", "--repository", "quay.io/me/driver").Want(t, 2, refusal)
	bundle := u.Path("b.tar")
	u.Run(t, "bundle", "create", "--repository", u.Host+"/team/driver", "--output", bundle).Want(t, 0)
	u.Run(t, "bundle", "import", bundle, "--to", "registry.gitlab.com/me/driver", "--allow-unsigned").Want(t, 2, refusal)
	u.Run(t, "bundle", "import", bundle, "--to", u.Host+"/site/driver", "--allow-unsigned").Want(t, 0)
}
