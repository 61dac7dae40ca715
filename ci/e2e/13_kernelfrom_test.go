package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testcert"
)

// Test13KernelFrom: an image of Debian's linux-headers and make, with the compiler that they depend on, gives
// the same layer of modules as the packages, byte for byte, with a companion, unsigned and signed, in a
// chroot and in a BuildKit daemon. A base without headers, and a kernel that the image does not have, are
// refused. An image of the shape of Flatcar's developer container compiles.
func Test13KernelFrom(t *testing.T) {
	root := journey(t)
	release := newestKernel(t)
	ref, dir := toolkitImage(t, release), scratch(t)
	layer := "modules proprietary " + release
	made := func(out string, more ...string) image {
		i, r := precompiled(t, filepath.Join(dir, out), append(companionFlags(), more...)...)
		t.Logf("%s took %s", out, r.took)
		return i
	}
	packages := made("packages", "--builder", "chroot")
	from := made("from", "--builder", "chroot", "--kernel-from", ref)
	hasModules(t, from, layer, "nvidia.ko", "nvidia-uvm.ko", "nvidia-peermem.ko", "nvidia-fs.ko")
	sameLayer(t, packages, from, layer)
	t.Run("Signed", func(t *testing.T) {
		authority := testcert.Of(testcert.RSA(), x509.Certificate{Subject: pkix.Name{CommonName: "modules"}}, nil) // RSA signs equally each time
		authority.Write(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
		sign := []string{"--sign-key", filepath.Join(dir, "key.pem"), "--sign-cert", filepath.Join(dir, "cert.pem"), "--builder", "buildkit=unix:///nonexistent"}
		signed := made("signed-from", append(sign, "--kernel-from", ref)...)
		sameLayer(t, made("signed-packages", sign...), signed, layer)
		sh(t, program(t), "verify", "--sign-cert", filepath.Join(dir, "cert.pem"), signed.ref())
	})
	t.Run("BuildKit", func(t *testing.T) {
		sameByBuildKit(t, root, from, layer, append(companionFlags(), "--kernel-from", ref)...)
	})
	t.Run("Refused", func(t *testing.T) {
		args := []string{program(t), "--os", "debian12", "--driver", thinDriver, "--base", base(t, "debian12", "amd64"), "--matrix", filepath.Join(root, "matrix.yaml"),
			"--output", "oci:" + filepath.Join(dir, "refused"), "--kernel-from"}
		assert.Contains(t, command{args: append(args, base(t, "debian12", "amd64"))}.want(t, 2).stderr, "headers of no kernel")
		assert.Contains(t, command{args: append(args, ref, "--kernel", "6.1.0-1-amd64")}.want(t, 2).stderr, "no complete headers of 6.1.0-1-amd64")
	})
	t.Run("Flatcar", func(t *testing.T) { compileInFlatcar(t, root, ref) })
}

// hasModules fails the test if a layer lacks one of these modules.
func hasModules(t *testing.T, i image, layer string, modules ...string) {
	t.Helper()
	found := map[string]bool{}
	for name := range i.contents(t, layer) {
		found[path.Base(name)] = true
	}
	for _, name := range modules {
		assert.Equalf(t, true, found[name], "%s is among the modules: %v", name, found)
	}
}

// sameLayer fails the test if a layer of two images differs.
func sameLayer(t *testing.T, one, two image, layer string) {
	t.Helper()
	if a, b := require.Value(one.layer(t, layer).Digest())(t), require.Value(two.layer(t, layer).Digest())(t); a != b {
		t.Errorf("%s: the layers of %s and %s differ:\n%v\n%v", layer, one.ref(), two.ref(), one.contents(t, layer), two.contents(t, layer))
	}
}

// compileInFlatcar turns the root of a disk into an image, as docs/kernel-from.md says, and compiles in it.
// All names of its toolchain have the target in front.
func compileInFlatcar(t *testing.T, root, ref string) {
	t.Helper()
	const release = "6.1.187-flatcar"
	dir := scratch(t)
	disk, layout := filepath.Join(dir, "disk"), filepath.Join(dir, "flatcar")
	sh(t, "umoci", "unpack", "--image", strings.TrimPrefix(ref, "oci:")+":debian12", disk)
	sh(t, filepath.Join(root, "ci", "flatcar-root"), filepath.Join(disk, "rootfs"), release)
	sh(t, "tar", "-C", filepath.Join(disk, "rootfs"), "--one-file-system", "-cf", layout+".tar", ".")
	sh(t, "umoci", "init", "--layout", layout)
	sh(t, "umoci", "new", "--image", layout+":4081.2.0")
	sh(t, "umoci", "raw", "add-layer", "--image", layout+":4081.2.0", layout+".tar")
	toolkit := "oci:" + layout + ":4081.2.0"
	assert.Contains(t, sh(t, program(t), "kernels", "--from", toolkit, "--progress", "quiet"), release+"  flatcar")
	made := image{dir: filepath.Join(dir, "out")}
	first, _, _ := strings.Cut(sh(t, program(t), "--os", "debian12", "--driver", thinDriver, "--base", base(t, "debian12", "amd64"), "--compression", "zstd", "--builder", "chroot",
		"--matrix", filepath.Join(root, "matrix.yaml"), "--lock", "none", "--kernel-from", toolkit, "--modules", "nvidia,nvidia-uvm", "--output", "oci:"+made.dir), "\n")
	tagged, digest, _ := strings.Cut(first, "@")
	made.tag, made.digest = tagged[strings.LastIndex(tagged, ":")+1:], digest
	hasModules(t, made, "modules proprietary "+release, "nvidia.ko", "nvidia-uvm.ko")
}
