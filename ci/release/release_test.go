package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// rig is a release, made twice.
type rig struct {
	root, out string
}

// sh runs a program in a folder, and returns what it printed on stdout.
func sh(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(require.Value(tool.Run(t.Context(), dir, env, args...))(t))
}

// TestRelease makes a release in two checkouts, compares them, and installs it in every way on a Debian that
// has nothing else. Each driver-build makes the same image.
func TestRelease(t *testing.T) {
	tool.Real(t, "it needs root, the network and what ci/e2e/setup installs")
	r := rig{root: require.Value(filepath.Abs("../.."))(t), out: filepath.Join(t.TempDir(), "a")}
	other := filepath.Join(t.TempDir(), "elsewhere")
	sh(t, r.root, nil, "git", "clone", "--quiet", "--no-hardlinks", r.root, other)
	sh(t, other, nil, "git", "checkout", "--quiet", sh(t, r.root, nil, "git", "rev-parse", "HEAD"))
	again := filepath.Join(t.TempDir(), "b")
	program := filepath.Join(t.TempDir(), "release")
	sh(t, r.root, nil, "go", "build", "-o", program, "./ci/release")
	sh(t, r.root, nil, program, "-out", r.out)
	sh(t, other, nil, program, "-out", again)
	sh(t, r.out, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	assert.Equal(t, string(require.Value(os.ReadFile(filepath.Join(r.out, "SHA256SUMS")))(t)), string(require.Value(os.ReadFile(filepath.Join(again, "SHA256SUMS")))(t)))
	sh(t, again, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	if t.Failed() {
		t.FailNow()
	}
	r.lint(t)
	digests := map[string]string{}
	for name, install := range map[string]func(*testing.T, string) string{"archive": r.archive, "deb": r.deb, "rpm": r.rpm} {
		t.Run(name, func(t *testing.T) {
			system, base := r.debian(t)
			digests[name] = r.build(t, system, base, install(t, system))
		})
	}
	t.Run("go install", func(t *testing.T) { digests["go install"] = r.goInstall(t) })
	t.Run("image", r.image)
	for name, digest := range digests {
		assert.Equalf(t, digests["archive"], digest, "the image of driver-build from %s", name)
	}
}

// lint asks the linters of both families about the packages.
func (r rig) lint(t *testing.T) {
	t.Helper()
	tool.Program(t, "lintian", "lintian")
	tool.Program(t, "rpmlint", "rpmlint")
	tags := filepath.Join(r.root, "ci/release/lintian.tags")
	deb := r.one(t, "driver-build_*_amd64.deb")
	sh(t, r.root, nil, "lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags-from-file", tags, deb)
	filters := filepath.Join(r.root, "ci/release/rpmlint.toml")
	// nfpm writes absolute names, and rpmlint has cpio unpack them: as root, into the machine's /usr.
	bin := t.TempDir()
	cpio := "#!/bin/sh\nexec /usr/bin/cpio --no-absolute-filenames \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "cpio"), []byte(cpio), 0o755))
	path := "PATH=" + bin + ":" + os.Getenv("PATH")
	sh(t, r.root, []string{path}, "rpmlint", "--strict", "--config", filters, r.one(t, "driver-build-*.x86_64.rpm"))
}

// one is the only file of the release whose name matches a pattern.
func (r rig) one(t *testing.T, pattern string) string {
	t.Helper()
	all := require.Value(filepath.Glob(filepath.Join(r.out, pattern)))(t)
	if len(all) != 1 {
		t.Fatalf("%s: %q", pattern, all)
	}
	return all[0]
}

// debian unpacks a base of Debian 12 without Go, with the network of this machine, and the caches at /cache
// and /base.
func (r rig) debian(t *testing.T) (system, base string) {
	t.Helper()
	base = strings.TrimPrefix(sh(t, r.root, nil, "ci/base", "debian12"), "oci:")
	system = filepath.Join(t.TempDir(), "root")
	ocitest.Unpack(t, ocitest.Open(t, base), system)
	for from, to := range map[string]string{base: "base", r.cache(t): "cache", "/proc": "proc"} {
		to = filepath.Join(system, to)
		require.NoError(t, os.MkdirAll(to, 0o755))
		sh(t, r.root, nil, "mount", "--bind", from, to)
		// Lazily, because no program that looks at the folder may keep the cache there: the folder is removed next.
		t.Cleanup(func() { assert.NoError(t, exec.Command("umount", "--lazy", to).Run()) })
	}
	resolv := require.Value(os.ReadFile("/etc/resolv.conf"))(t)
	require.NoError(t, os.WriteFile(filepath.Join(system, "etc/resolv.conf"), resolv, 0o644))
	return system, base
}

func (r rig) cache(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(require.Value(os.UserCacheDir())(t), "driver-build")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func (r rig) archive(t *testing.T, system string) string {
	sh(t, system, nil, "tar", "-xzf", r.one(t, "driver-build-*-linux-amd64.tar.gz"), "-C", filepath.Join(system, "opt"), "--strip-components=1")
	r.documents(t, system, "/opt/completions/driver-build.bash", "cat /opt/man/driver-build.1")
	return "/opt/driver-build"
}

func (r rig) deb(t *testing.T, system string) string {
	sh(t, r.root, nil, "cp", r.one(t, "driver-build_*_amd64.deb"), filepath.Join(system, "driver-build.deb"))
	sh(t, r.root, nil, "chroot", system, "dpkg", "--install", "/driver-build.deb")
	r.documents(t, system, "/usr/share/bash-completion/completions/driver-build", "true")
	return "/usr/bin/driver-build"
}

func (r rig) rpm(t *testing.T, system string) string {
	sh(t, r.root, nil, "rpm", "--root", system, "--install", r.one(t, "driver-build-*.x86_64.rpm"))
	assert.Equal(t, "", sh(t, r.root, nil, "rpm", "--root", system, "--verify", "driver-build"))
	r.documents(t, system, "/usr/share/bash-completion/completions/driver-build", "zcat /usr/share/man/man1/driver-build.1.gz")
	return "/usr/bin/driver-build"
}

// documents looks at what a shell and a reader of manual pages get. A base leaves out /usr/share/man of
// packages that dpkg installs.
func (r rig) documents(t *testing.T, system, completion, page string) {
	t.Helper()
	said := sh(t, r.root, nil, "chroot", system, "bash", "-c", "source "+completion+" && complete -p driver-build")
	assert.Contains(t, said, "-F __start_driver-build driver-build")
	if text := sh(t, r.root, nil, "chroot", system, "sh", "-c", page); page != "true" {
		assert.Contains(t, text, `.TH "DRIVER-BUILD" "1"`)
	}
}

var reference = regexp.MustCompile(`@(sha256:[0-9a-f]{64})`)

// build makes the image of the README and returns its digest.
func (r rig) build(t *testing.T, system, base, program string) string {
	t.Helper()
	said := sh(t, r.root, nil, "chroot", system, program, "--os", "debian12", "--driver", "535.261.03",
		"--base", "oci:/base", "--cache", "/cache", "--output", "oci:/dist", "--progress", "plain")
	m := reference.FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("no digest in %q", said)
	}
	t.Logf("%s with base %s: %s", program, base, m[1])
	return m[1]
}

// goInstall installs driver-build alone, from a proxy that has this commit and nothing else; it makes its
// programs itself.
func (r rig) goInstall(t *testing.T) string {
	work := t.TempDir()
	for _, name := range []string{"GOPROXY", "GONOSUMDB", "SOURCE_DATE_EPOCH", "TZ"} {
		t.Setenv(name, os.Getenv(name)) // readSource sets them
	}
	s := require.Value(readSource(t.Context(), r.root, work))(t)
	bin := filepath.Join(work, "bin")
	env := []string{"GOBIN=" + bin, "GOFLAGS="}
	sh(t, work, env, "go", "install", modulePath+"/cmd/driver-build@"+s.module.Version)
	assert.Equal(t, "driver-build "+s.module.Version, sh(t, work, nil, filepath.Join(bin, "driver-build"), "version"))
	base := sh(t, r.root, nil, "ci/base", "debian12")
	said := sh(t, work, []string{"SOURCE_DATE_EPOCH="}, filepath.Join(bin, "driver-build"), "--os", "debian12", "--driver", "535.261.03",
		"--base", base, "--cache", filepath.Join(work, "cache"), "--output", "oci:"+filepath.Join(work, "dist"), "--progress", "plain")
	return reference.FindStringSubmatch(said)[1]
}

// image starts driver-build from its image: a folder and chroot are enough for a static program.
func (r rig) image(t *testing.T) {
	layout := filepath.Join(t.TempDir(), "layout")
	archive := r.one(t, "driver-build-*-image.oci.tar")
	sh(t, r.root, nil, "skopeo", "--insecure-policy", "copy", "oci-archive:"+archive, "oci:"+layout+":it")
	root := filepath.Join(t.TempDir(), "root")
	ocitest.Unpack(t, ocitest.Open(t, layout), root)
	said := sh(t, r.root, nil, "chroot", root, "/usr/bin/driver-build", "list", "--os", "debian12")
	assert.Contains(t, said, "535.261.03")
}
