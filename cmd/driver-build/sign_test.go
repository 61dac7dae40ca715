package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// modulesImage writes an image with modules for each architecture into a layout and returns its reference.
func (u *user) modulesImage(t *testing.T, arches ...string) string {
	t.Helper()
	var all []v1.Image
	for _, arch := range arches {
		img := imagetest.Image(t, arch, v1.Config{Labels: map[string]string{"org.opencontainers.image.version": newDriver + "-debian12", recipe.LabelDriver: newDriver, recipe.LabelAliases: "535-debian12"}},
			repotest.Compress(t, ".gz", repotest.Tar(t, "", []repotest.File{{Name: "etc/os-release", Body: "ID=debian\n"}})),
			repotest.Compress(t, ".gz", repotest.Tar(t, "", modulesSet(t, arch))))
		all = append(all, img)
	}
	artifact := require.Value(images.Combine(all))(t)
	dir := u.Path("in-" + strings.Join(arches, "-"))
	require.NoError(t, oci.WriteLayout(context.Background(), dir, "mine", artifact))
	return "oci:" + dir + ":mine"
}

// modulesSet are the files of a set as a compile leaves it.
func modulesSet(t *testing.T, arch string) (files []repotest.File) {
	t.Helper()
	key := kbuild.Key{Driver: newDriver, Flavour: "proprietary", Release: imagetest.Kernel, Arch: arch}
	made := require.Value(imagetest.PutModules(t.Context(), t.TempDir(), key, []string{"nvidia", "nvidia-uvm"}, func(name string) []byte {
		return append(imagetest.Module(strings.ReplaceAll(name, "-", "_"), newDriver, imagetest.Kernel), arch...)
	}))(t)
	for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko", kbuild.ManifestName} {
		files = append(files, repotest.File{Name: recipe.ModulesDir + "/" + filepath.Base(made.Dir) + "/" + name, Body: testfile.Read(t, filepath.Join(made.Dir, name))})
	}
	return files
}

func TestSignCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref := u.modulesImage(t, "amd64", "arm64")
	key, cert := commandtest.SignKey(t)
	u.Env[flags.PassphraseVariable] = "correct"
	r := u.Run(t, "sign-modules", ref, "--module-key", key, "--module-cert", cert, "--output", "oci:"+u.Path("out"), "--push", "--repository", u.Host+"/gpu/driver", "--tag", "a", "--tag", "b")
	r.Want(t, 0)
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	assert.Equalf(t, 4, len(lines), "lines of %s", r.Stdout)
	assert.Contains(t, lines[0], "oci:"+u.Path("out")+":a@sha256:")
	assert.Contains(t, lines[3], u.Host+"/gpu/driver:b@sha256:")
	for _, arch := range []string{"amd64", "arm64"} {
		r = u.Run(t, "inspect", "--deep", u.Host+"/gpu/driver:a", "--arch", arch).Want(t, 0)
		assert.Containsf(t, r.Stdout, imagetest.Kernel+" proprietary: 2 modules, signed by Site with sha256, key 05, certificate ", "%s", arch)
		counts(t, u.Run(t, "verify", "oci:"+u.Path("out")+":a", "--arch", arch, "--module-cert", cert).Stdout, map[string]int{"module-signature": 0})
	}
	_, other := commandtest.SignKey(t)
	r = u.Run(t, "verify", "oci:"+u.Path("out")+":a", "--module-cert", other).Want(t, session.ExitMismatch)
	assert.Contains(t, r.Stdout, "error: module-signature: ")
	assert.Contains(t, u.Run(t, "verify", ref).Stdout, "note: module-signature: ")
	assert.Contains(t, u.Run(t, "inspect", "--deep", ref).Stdout, "2 modules, unsigned")
	u.Run(t, "sign-modules", ref, "--module-key", key, "--module-cert", cert, "--output", "docker-archive:"+u.Path("x")).Want(t, session.ExitUsage, "one architecture")
	// One architecture under two names in a layout, which sbom reads without either.
	u.Run(t, "sign-modules", ref, "--module-key", key, "--module-cert", cert, "--arch", "amd64", "--output", "oci:"+u.Path("two"), "--tag", "a", "--tag", "b").Want(t, 0)
	u.Run(t, "sbom", "oci:"+u.Path("two")).Want(t, 0)
	// One architecture, under the tag that it was built with.
	r = u.Run(t, "sign-modules", ref, "--module-key", key, "--module-cert", cert, "--arch", "arm64", "--output", "docker-archive:"+u.Path("one.tar")).Want(t, 0)
	assert.Contains(t, r.Stdout, "docker-archive:"+u.Path("one.tar")+":driver:"+newDriver+"-debian12@sha256:")
}

// TestSignOffline: export, sign with openssl where there is no driver-build, import.
func TestSignOffline(t *testing.T) {
	t.Parallel()
	tool.Real(t, "signs with openssl")
	u := newUser(t)
	ref := u.modulesImage(t, "amd64", "arm64")
	key, cert := u.Path("key.pem"), u.Path("cert.pem")
	openssl := func(args ...string) { tool.Must(t, append([]string{"openssl"}, args...)...) }
	openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=Site", "-days", "9", "-keyout", key, "-out", cert)
	want := u.Run(t, "sign-modules", ref, "--module-key", key, "--module-cert", cert, "--output", "oci:"+u.Path("online")).Want(t, 0)
	for _, whole := range []bool{false, true} {
		dir := u.Path("request")
		args := []string{"sign-modules", ref, "--export", dir}
		if whole {
			args = append(args, "--unsigned-modules")
		}
		r := u.Run(t, args...).Want(t, 0, "4 modules to sign")
		assert.Equalf(t, filepath.Join(dir, kernelmodules.RequestName), strings.TrimSpace(r.Stdout), "stdout: %s", r.Stdout)
		var request kernelmodules.SigningRequest
		require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, filepath.Join(dir, kernelmodules.RequestName))), &request))
		for _, m := range request.Modules {
			name := filepath.Join(dir, m.SHA256)
			if whole {
				openssl("cms", "-sign", "-binary", "-noattr", "-nocerts", "-md", m.Hash, "-in", name+".ko", "-signer", cert, "-inkey", key, "-outform", "DER", "-out", name+".p7s")
			} else {
				openssl("pkeyutl", "-sign", "-inkey", key, "-pkeyopt", "digest:"+m.Hash, "-in", name+".digest", "-out", name+".sig")
			}
		}
		r = u.Run(t, "sign-modules", ref, "--import", dir, "--module-cert", cert, "--output", "oci:"+u.Path("offline")).Want(t, 0)
		assert.Equalf(t, want.Digest(t), r.Digest(t), "whole modules %v: %s, with the key %s", whole, r.Stdout, want.Stdout)
		require.NoError(t, os.RemoveAll(dir))
	}
}
