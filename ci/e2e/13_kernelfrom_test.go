package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/testcert"
)

// Test13KernelFrom: an image of Debian's linux-headers and make, with the compiler that they depend on, gives
// the same modules as the packages, byte for byte, unsigned and signed. A base without headers, and a kernel
// that the image does not have, are refused. An image of the shape of Flatcar's developer container compiles.
func Test13KernelFrom(t *testing.T) {
	root := journey(t)
	release := newestKernel(t)
	toolkit := func(dir string, include string) string {
		lines := strings.Split(sh(t, "env", "BASE_INCLUDE="+include, "BASE_DIR="+dir, filepath.Join(root, "ci", "base"), "debian12", "amd64"), "\n")
		return lines[len(lines)-1]
	}
	dir := scratch(t)
	ref := toolkit(filepath.Join(dir, "toolkit"), "linux-headers-"+release+",make")
	args := func(out string, more ...string) command {
		all := []string{program(t), "--progress", "plain", "--os", "debian12", "--driver", "470.256.02", "--base", base(t, "debian12", "amd64"), "--compression", "zstd",
			"--matrix", filepath.Join(root, "matrix.yaml"), "--lock", "none", "--builder", "chroot", "--output", "oci:" + filepath.Join(dir, out)}
		return command{args: append(all, more...)}
	}
	built := func(out string, r result) image {
		first, _, _ := strings.Cut(strings.TrimSpace(r.stdout), "\n")
		ref, d, _ := strings.Cut(first, "@")
		return image{dir: filepath.Join(dir, out), tag: ref[strings.LastIndex(ref, ":")+1:], digest: d}
	}
	authority := testcert.Of(testcert.RSA(), x509.Certificate{Subject: pkix.Name{CommonName: "modules"}}, nil) // RSA signs equally each time
	authority.Write(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	sign := []string{"--sign-key", filepath.Join(dir, "key.pem"), "--sign-cert", filepath.Join(dir, "cert.pem")}
	from := built("from", args("from", "--kernel-from", ref).want(t, 0))
	packages := built("packages", args("packages", "--kernel", release).want(t, 0))
	assert.Equal(t, packages.tag, from.tag)
	layer := "modules proprietary " + release
	same := func(one, two image, layer string) {
		a, b := one.contents(t, layer), two.contents(t, layer)
		if len(a) < 4 || !maps.Equal(a, b) {
			t.Errorf("%s: by the image\n%v\nby packages\n%v", layer, a, b)
		}
	}
	same(from, packages, layer)
	signedFrom := built("signed-from", args("signed-from", append(sign, "--kernel-from", ref)...).want(t, 0))
	signedPackages := built("signed-packages", args("signed-packages", append(sign, "--kernel", release)...).want(t, 0))
	same(signedFrom, signedPackages, layer)

	args("none", "--kernel-from", base(t, "debian12", "amd64")).want(t, 2)
	r := args("other", "--kernel-from", ref, "--kernel", "6.1.0-1-amd64").want(t, 2)
	assert.Contains(t, r.stderr, "no complete headers of 6.1.0-1-amd64")

	// The root of a disk becomes an image as docs/kernel-from.md says, and all names of its toolchain have the
	// target in front.
	const flatcar = "6.1.187-flatcar"
	disk, layout := filepath.Join(dir, "disk"), filepath.Join(dir, "flatcar")
	sh(t, "umoci", "unpack", "--image", strings.TrimPrefix(ref, "oci:")+":debian12", disk)
	sh(t, filepath.Join(root, "ci", "flatcar-root"), filepath.Join(disk, "rootfs"), flatcar)
	sh(t, "tar", "-C", filepath.Join(disk, "rootfs"), "--one-file-system", "-cf", layout+".tar", ".")
	sh(t, "umoci", "init", "--layout", layout)
	sh(t, "umoci", "new", "--image", layout+":4081.2.0")
	sh(t, "umoci", "raw", "add-layer", "--image", layout+":4081.2.0", layout+".tar")
	image := "oci:" + layout + ":4081.2.0"
	assert.Contains(t, sh(t, program(t), "kernels", "--from", image, "--progress", "quiet"), flatcar+"  flatcar")
	modules := built("flatcar-image", args("flatcar-image", "--kernel-from", image, "--modules", "nvidia,nvidia-uvm").want(t, 0)).contents(t, "modules proprietary "+flatcar)
	for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(modules)), func(file string) bool { return strings.HasSuffix(file, "/"+name) }) {
			t.Errorf("no %s in %v", name, modules)
		}
	}
}
