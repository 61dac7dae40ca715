package scenarios

import (
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// distribution stands for Ubuntu: Debian's packages under its name, and a repository with NVIDIA's
// modules for a kernel of Debian's, in Canonical's packages.
type distribution struct {
	base   string // an OCI layout, as an argument
	matrix string // a file
}

const (
	ubuntu   = "ubuntu22.04"
	vendor   = "Canonical Ltd. Kernel Module Signing"
	linkCall = "/usr/bin/ld.bfd -r -m elf_x86_64 -z noexecstack --build-id=sha1 -T scripts/module.lds -o "
)

// newDistribution makes the distribution. Its modules are signed by a key.
func newDistribution(t *testing.T, kernel *lab.HostKernel, key *testcert.Pair) distribution {
	t.Helper()
	server := repotest.Serve(t, nil)
	put := func(path string, data []byte) { server.Files[path] = data }
	archive := repotest.NewArchive(t, "/ubuntu", "jammy", []string{"amd64"}, []string{"restricted"}, put)
	archive.Signer = repotest.Key("The archive", 0)
	archive.Packages = canonicalPackages(t, kernel.Release, canonicalFiles(t, kernel, key))
	archive.Publish()
	const keyring = "usr/share/keyrings/jammy.asc"
	files := []repotest.File{
		{Name: "etc/os-release", Body: "ID=ubuntu\nVERSION_ID=\"22.04\"\n"},
		{Name: keyring, Body: repotest.Public(t, archive.Signer)},
		{
			Name: "etc/apt/sources.list.d/jammy.list",
			Body: fmt.Sprintf("deb [signed-by=/%s] %s/ubuntu jammy restricted\n", keyring, server.URL),
		},
	}
	top := static.NewLayer(repotest.Tar(t, "", files), types.OCIUncompressedLayer)
	below := ocitest.Open(t, strings.TrimPrefix(debianBase(t), "oci:"))
	return distribution{base: oci(writeLayout(t, require.Value(mutate.AppendLayers(below, top))(t))), matrix: ubuntuMatrix(t)}
}

// writeLayout writes an image into an OCI layout of its own.
func writeLayout(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	path := require.Value(layout.Write(dir, empty.Index))(t)
	require.NoError(t, path.AppendImage(img))
	return dir
}

// ubuntuMatrix is the project's, in which Debian's packages of the driver are Ubuntu's too.
func ubuntuMatrix(t *testing.T) string {
	t.Helper()
	const debian = "debian12: 535.261.03-1"
	text := testfile.Read(t, project+"/matrix.yaml")
	assert.Equal(t, 1, strings.Count(text, debian))
	text = strings.Replace(text, debian, debian+"\n        "+ubuntu+": 535.261.03-1", 1)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "patches"), os.DirFS(project+"/patches")))
	return testfile.Write(t, filepath.Join(dir, "matrix.yaml"), text)
}

// canonicalFiles are the files below bits of linux-objects-nvidia, and of linux-signatures-nvidia: what is
// linked, the script that links, the sums of the linked modules, and the signatures that fit them.
func canonicalFiles(t *testing.T, kernel *lab.HostKernel, key *testcert.Pair) map[string]string {
	t.Helper()
	cache := kbuild.Cache{Dir: d535.modules(t, kernel)}
	set := require.Value(cache.Find(t.Context(), func(kbuild.Key) bool { return true }))(t)
	signer := require.Value(sign.NewSigner(key.Key, key.Certificate))(t)
	script := testfile.Read(t, filepath.Join(kernel.Root, "usr/src/linux-headers-"+kernel.Release, "arch/x86/module.lds"))
	files := map[string]string{"scripts/module.lds": script}
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "scripts/module.lds"), script)
	for _, module := range set.Modules {
		object := module.Name + "/" + module.Name + ".o"
		linked := module.Name + ".ko"
		files[object] = testfile.Read(t, module.Path)
		testfile.Write(t, filepath.Join(dir, object), files[object])
		call := linkCall + linked + " " + object
		tool.Must(t, "sh", "-ec", "cd "+dir+"\n"+call)
		files["BUILD"] += call + "; true\n"
		sum, size, err := kbuild.Digest(filepath.Join(dir, linked))
		require.NoError(t, err)
		files["SHA256SUMS"] += sum + " *" + linked + "\n"
		der := require.Value(signer.SignFile(t.Context(), filepath.Join(dir, linked), crypto.SHA256))(t)
		signed := filepath.Join(dir, linked+".signed")
		require.NoError(t, sign.Attach(t.Context(), filepath.Join(dir, linked), signed, der))
		files[linked+".sig"] = testfile.Read(t, signed)[size:]
	}
	return files
}

// canonicalPackages are Canonical's packages of a kernel.
func canonicalPackages(t *testing.T, release string, files map[string]string) []repotest.Deb {
	t.Helper()
	var objects, signatures []repotest.File
	for name, body := range files {
		file := repotest.File{Name: "lib/modules/" + release + "/kernel/nvidia-535srv/bits/" + name, Body: body}
		if strings.HasSuffix(name, ".sig") {
			signatures = append(signatures, file)
		} else {
			objects = append(objects, file)
		}
	}
	deb := func(name, depends string, files []repotest.File) repotest.Deb {
		control := fmt.Sprintf("Package: %s\nVersion: 6.1.0-1.1\nArchitecture: amd64\nDepends: %s\nDescription: modules", name, depends)
		return repotest.Deb{Control: control, Component: "restricted", Files: files}
	}
	const common = "nvidia-kernel-common-535-server"
	return []repotest.Deb{
		deb("linux-modules-nvidia-535-server-"+release, fmt.Sprintf("%s (<= %s-1), %s (>= %s)", common, d535.driver, common, d535.driver), nil),
		deb("linux-objects-nvidia-535-server-"+release, "binutils", objects),
		deb("linux-signatures-nvidia-"+release, "binutils", signatures),
	}
}

// Test32Distribution: modules that "the distribution" signed load under Secure Boot where the kernel has its
// key, and are refused, with its name, where the kernel has not.
func Test32Distribution(t *testing.T) {
	lab.Gate(t)
	t.Parallel()
	kernel := lab.Kernel(t, "debian12")
	key := newKey(vendor)
	d := newDistribution(t, kernel, key)
	dir := filepath.Join(t.TempDir(), "image")
	made := require.Value(tool.Run(t.Context(), project, nil, "bin/driver-build", "--os", ubuntu, "--driver", d535.driver, "--base", d.base,
		"--matrix", d.matrix, "--kernel", kernel.Release, "--modules-from", "distribution", "--flavour", closed, "--builder", "chroot",
		"--output", oci(dir), "--progress", "plain"))(t)
	t.Log(made)
	cert := testfile.Write(t, filepath.Join(t.TempDir(), "cert.pem"), key.CertPEM())
	node := []string{oci(dir), "--os", "debian12", "--secure-boot"}
	t.Run("the kernel has the key", func(t *testing.T) {
		report := rehearsal(t, "", "", append(node, "--module-cert", cert)...)
		assert.Equal(t, true, report.Passed)
	})
	t.Run("the kernel does not have the key", func(t *testing.T) {
		rehearsal(t, "signatures", vendor+`.* a key that the kernel does not know .*built into the kernels of ubuntu`, node...)
	})
}
