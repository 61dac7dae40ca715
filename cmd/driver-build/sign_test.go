package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/modsign"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// modulesImage writes an image with modules for each architecture into a layout and returns its reference.
func (u *user) modulesImage(t *testing.T, arches ...string) string {
	t.Helper()
	var all []v1.Image
	for _, arch := range arches {
		img := imagetest.Image(t, arch, v1.Config{Labels: map[string]string{"org.opencontainers.image.version": newDriver + "-debian12", recipe.LabelDriver: newDriver}},
			repotest.Compress(t, ".gz", repotest.Tar(t, "", []repotest.File{{Name: "etc/os-release", Body: "ID=debian\n"}})),
			repotest.Compress(t, ".gz", repotest.Tar(t, "", modulesSet(t, arch))))
		all = append(all, img)
	}
	artifact := require.Value(images.Combine(all))(t)
	dir := u.path("in-" + strings.Join(arches, "-"))
	require.NoError(t, oci.WriteLayout(context.Background(), dir, "mine", artifact))
	return "oci:" + dir + ":mine"
}

// modulesSet are the files of a set as a compile leaves it.
func modulesSet(t *testing.T, arch string) (files []repotest.File) {
	t.Helper()
	work := t.TempDir()
	set := &kbuild.Set{Dir: work, SigHash: "sha256", Key: kbuild.Key{
		Driver: newDriver, Flavour: "proprietary", Release: imagetest.Kernel, Arch: arch, Kernel: "headers 00", Compiler: "gcc 12.2.0", Method: kbuild.Method,
	}}
	for _, name := range []string{"nvidia", "nvidia-uvm"} {
		data := imagetest.Module(strings.ReplaceAll(name, "-", "_"), newDriver, imagetest.Kernel)
		file := filepath.Join(work, name+".ko")
		require.NoError(t, os.WriteFile(file, append(data, arch...), 0o600))
		sum := sha256.Sum256(append(data, arch...))
		set.Modules = append(set.Modules, kbuild.File{Name: name, Path: file, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data) + len(arch))})
	}
	made := require.Value(kbuild.Cache{Dir: t.TempDir()}.Put(t.Context(), set))(t)
	for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko", kbuild.ManifestName} {
		data := require.Value(os.ReadFile(filepath.Join(made.Dir, name)))(t)
		files = append(files, repotest.File{Name: recipe.ModulesDir + "/" + filepath.Base(made.Dir) + "/" + name, Body: string(data)})
	}
	return files
}

func TestSignCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref := u.modulesImage(t, "amd64", "arm64")
	key, cert := newSignKey(t)
	u.env[passphraseVariable] = "correct"
	r := u.run(t, "sign", ref, "--sign-key", key, "--sign-cert", cert, "-o", "oci:"+u.path("out"), "--push", "--repository", u.Host+"/gpu/driver", "--tag", "a", "--tag", "b")
	r.want(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "oci:"+u.path("out")+":a@sha256:") || !strings.HasPrefix(lines[3], u.Host+"/gpu/driver:b@sha256:") {
		t.Errorf("stdout: %s", r.stdout)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		r = u.run(t, "inspect", u.Host+"/gpu/driver:a", "--arch", arch)
		r.want(t, 0)
		assert.Containsf(t, r.stdout, imagetest.Kernel+" proprietary: 2 modules, signed by Site with sha256, key 05, certificate ", "%s", arch)
		if r = u.run(t, "verify", "oci:"+u.path("out")+":a", "--arch", arch, "--sign-cert", cert); strings.Contains(r.stdout, "module-signature") {
			t.Errorf("%s: %s", arch, r.stdout)
		}
	}
	_, other := newSignKey(t)
	if r = u.run(t, "verify", "oci:"+u.path("out")+":a", "--sign-cert", other); !strings.Contains(r.stdout, "error: module-signature: ") || r.code != exitMismatch {
		t.Errorf("%d: %s", r.code, r.stdout)
	}
	if r = u.run(t, "verify", ref); !strings.Contains(r.stdout, "note: module-signature: ") {
		t.Errorf("%s", r.stdout)
	}
	if r = u.run(t, "inspect", ref); !strings.Contains(r.stdout, "2 modules, unsigned") {
		t.Error(r.stdout)
	}
	// One architecture, under the tag that it was built with.
	r = u.run(t, "sign", ref, "--sign-key", key, "--sign-cert", cert, "--arch", "arm64", "-o", "docker-archive:"+u.path("one.tar"))
	r.want(t, 0)
	if !strings.HasPrefix(r.stdout, "docker-archive:"+u.path("one.tar")+":driver:"+newDriver+"-debian12@sha256:") {
		t.Error(r.stdout)
	}
}

func TestSignUsage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref := u.modulesImage(t, "amd64", "arm64")
	key, cert := newSignKey(t)
	for args, parts := range map[string][]string{
		"":                         {"--sign-key KEY, --export DIR and --import DIR"},
		"--sign-key k":             {"k"},
		"--sign-key k --export d":  {"one of"},
		"--import d":               {"--sign-cert"},
		"--export d --sign-cert c": {"belong to a key"},
		"--import d --sign-cert c --unsigned-modules":                                       {"--export"},
		"--export d --push":                                                                 {"makes no image"},
		"--import d --sign-cert " + key:                                                     {"it is PKCS#12"},
		"--import d --sign-cert " + cert + " --arch sh":                                     {"amd64, arm64"},
		"--sign-key " + key + " --sign-cert " + cert + " --push":                            {"--repository"},
		"--sign-key " + key + " --sign-cert " + cert + " -o tar:x":                          {`"tar" is not known`},
		"--sign-key " + key + " --sign-cert " + cert:                                        {"the passphrase is missing or wrong"},
		"--sign-key pkcs11:token=t;object=o?pin-value=1;module-path=/x --sign-cert " + cert: {"pin-source"},
	} {
		r := u.run(t, append([]string{"sign", ref}, strings.Fields(args)...)...)
		r.want(t, exitUsage, parts...)
	}
	u.env[passphraseVariable] = "correct"
	u.run(t, "sign", ref, "--sign-key", key, "--sign-cert", cert, "-o", "docker-archive:"+u.path("x")).want(t, exitUsage, "one architecture")
	goldentest.Compare(t, "testdata/help-sign.txt", call(t.Context(), t, nil, "sign", "--help").stdout)
}

// TestSignOffline: export, sign with openssl where there is no driver-build, import.
func TestSignOffline(t *testing.T) {
	t.Parallel()
	if os.Getenv("DRIVER_E2E") != "1" {
		t.Skip("signs with openssl: set DRIVER_E2E=1")
	}
	u := newUser(t)
	ref := u.modulesImage(t, "amd64", "arm64")
	key, cert := u.path("key.pem"), u.path("cert.pem")
	openssl := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=Site", "-days", "9", "-keyout", key, "-out", cert)
	want := u.run(t, "sign", ref, "--sign-key", key, "--sign-cert", cert, "-o", "oci:"+u.path("online"))
	want.want(t, 0)
	for _, whole := range []bool{false, true} {
		dir := u.path("request")
		args := []string{"sign", ref, "--export", dir}
		if whole {
			args = append(args, "--unsigned-modules")
		}
		r := u.run(t, args...)
		r.want(t, 0, "4 modules to sign")
		assert.Equalf(t, filepath.Join(dir, modsign.RequestName), strings.TrimSpace(r.stdout), "stdout: %s", r.stdout)
		for _, m := range readRequest(t, dir).Modules {
			name := filepath.Join(dir, m.SHA256)
			if whole {
				openssl("cms", "-sign", "-binary", "-noattr", "-nocerts", "-md", m.Hash, "-in", name+".ko", "-signer", cert, "-inkey", key, "-outform", "DER", "-out", name+".p7s")
			} else {
				openssl("pkeyutl", "-sign", "-inkey", key, "-pkeyopt", "digest:"+m.Hash, "-in", name+".digest", "-out", name+".sig")
			}
		}
		r = u.run(t, "sign", ref, "--import", dir, "--sign-cert", cert, "-o", "oci:"+u.path("offline"))
		r.want(t, 0)
		assert.Equalf(t, want.digest(t), r.digest(t), "whole modules %v: %s, with the key %s", whole, r.stdout, want.stdout)
		require.NoError(t, os.RemoveAll(dir))
	}
}

func readRequest(t *testing.T, dir string) (q modsign.SigningRequest) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, modsign.RequestName))
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	require.NoError(t, err)
	return q
}

// TestSignRefuses: wrong signatures of an offline signer end with the exit code for wrong content.
func TestSignRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref, another := u.modulesImage(t, "amd64"), u.modulesImage(t, "arm64")
	_, cert := newSignKey(t)
	dir := u.path("request")
	u.run(t, "sign", ref, "--export", dir).want(t, 0)
	u.run(t, "sign", ref, "--import", dir, "--sign-cert", cert).want(t, exitMismatch, "nvidia", ".p7s nor")
	u.run(t, "sign", another, "--import", dir, "--sign-cert", cert).want(t, exitMismatch, "not for this image")
	for _, m := range readRequest(t, dir).Modules {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m.SHA256+".sig"), []byte("no signature"), 0o600))
	}
	u.run(t, "sign", ref, "--import", dir, "--sign-cert", cert).want(t, exitMismatch, "does not fit the module")
	if list, err := os.ReadDir("dist"); err == nil {
		t.Errorf("written: %v", list)
	}
}
