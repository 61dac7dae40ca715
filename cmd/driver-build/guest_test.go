package main

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// TestGuest: a vGPU guest driver comes from a local file with a checksum of its own. Its image goes to a
// private registry and to no public one: not from a build, not with the layers of a cache, not by push, sign
// or bundle import. The refusal comes before anything is downloaded.
func TestGuest(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	data := imagetest.Run(t, newDriver, "amd64", append(imagetest.DriverFiles(newDriver, "amd64"), imagetest.GuestFiles(newDriver, "amd64")...), nil)
	archive := u.Path("NVIDIA-Linux-x86_64-" + newDriver + "-grid-azure.run")
	require.NoError(t, os.WriteFile(archive, data, 0o600))
	systems, _, _ := strings.Cut(u.Matrix(), "drivers:")
	file := u.Path("guest.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "%sdrivers:\n  - version: %s\n    vgpu: azure\n    archives: {amd64: {url: file://%s, sha256: %x}}\n",
		systems, newDriver, archive, sha256.Sum256(data)), 0o600))
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
		r := u.Run(t, args...).Want(t, 0)
		assert.Contains(t, r.Stdout, said)
	}
	u.Run(t, "push", image, "quay.io/me/driver").Want(t, 2, refusal)
	u.Run(t, "push", u.Host+"/team/driver:"+newDriver+"-debian12", "quay.io/me/driver").Want(t, 2, refusal)
	u.Run(t, "push", image, u.Host+"/other/driver").Want(t, 0)
	pair := testcert.New(x509.Certificate{Subject: pkix.Name{CommonName: "modules"}}, nil)
	key := u.Path("key.pem")
	require.NoError(t, os.WriteFile(key, []byte(pair.KeyPEM()+pair.CertPEM()), 0o600))
	u.Run(t, "sign-modules", image, "--module-key", key, "--push", "--repository", "quay.io/me/driver").Want(t, 2, refusal)
	bundle := u.Path("b.tar")
	u.Run(t, "bundle", "create", "--repository", u.Host+"/team/driver", "--output", bundle).Want(t, 0)
	u.Run(t, "bundle", "import", bundle, "--to", "registry.gitlab.com/me/driver", "--allow-unsigned").Want(t, 2, refusal)
	u.Run(t, "bundle", "import", bundle, "--to", u.Host+"/site/driver", "--allow-unsigned").Want(t, 0)
}
