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
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// target is Rocky Linux, whose repositories the test makes, and a driver.
type target struct {
	repo   *realrepo.System
	proxy  string // address of the server of all hosts
	matrix string
}

// archiveHost is the host that serves the driver.
const archiveHost = "archive.example"

// rocky makes the repositories of Rocky Linux, or takes them from the cache, and serves their hosts and the driver's
// archive to clients that use the server as their proxy.
func rocky(t *testing.T, headers realrepo.Headers) target {
	t.Helper()
	repo := realrepo.Rocky(t, headers)
	served, www := scratch(t), filepath.Join(repo.Dir, "www")
	hosts := require.Value(os.ReadDir(www))(t)
	for _, h := range hosts {
		require.NoError(t, os.Symlink(filepath.Join(www, h.Name()), filepath.Join(served, h.Name())))
	}
	archive := driverArchive(t)
	require.NoError(t, os.Symlink(filepath.Dir(archive), filepath.Join(served, archiveHost)))
	files := http.FileServer(http.Dir(served))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + r.URL.Hostname() + r.URL.Path
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return target{repo: repo, proxy: server.URL, matrix: archiveMatrix(t, archive)}
}

// driverArchive makes an archive of the driver, of Debian's packages.
func driverArchive(t *testing.T) string {
	t.Helper()
	a, skipped, err := makeself.FromTree(os.DirFS(debian(t, "debian12", thinDriver).driverTree(t)), thinDriver, "x86_64")
	require.NoError(t, err)
	for _, name := range skipped {
		if !strings.HasPrefix(name, "licenses/") && name != "usr/lib/firmware/nvidia/"+thinDriver { // a link to the firmware
			t.Errorf("the generator has no place for %s", name)
		}
	}
	file := filepath.Join(scratch(t), a.Name())
	require.NoError(t, a.WriteFile(t.Context(), file))
	return file
}

// archiveMatrix returns a matrix of the system and the driver, whose archive is on archiveHost.
func archiveMatrix(t *testing.T, archive string) string {
	t.Helper()
	f := require.Value(os.Open(archive))(t)
	defer f.Close() //nolint:errcheck // read only
	sum := sha256.New()
	size := require.Value(io.Copy(sum, f))(t)
	text := fmt.Sprintf(`systems:
  - {id: rocky9, base: "registry.invalid/base:latest", archs: [amd64], kernels: [6.1]}
drivers:
  - version: %s
    flavours: [proprietary]
    archives:
      amd64: {url: "http://%s/%s", sha256: %s, size: %d}
`, thinDriver, archiveHost, filepath.Base(archive), hex.EncodeToString(sum.Sum(nil)), size)
	name := filepath.Join(scratch(t), "matrix.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// build makes an image with further flags and returns it under its first tag.
func (s target) build(t *testing.T, dir string, flags ...string) image {
	t.Helper()
	r := s.command(t, dir, flags...).want(t, 0)
	ref, d, found := strings.Cut(strings.Split(strings.TrimSpace(r.stdout), "\n")[0], "@")
	if !found {
		t.Fatalf("no reference\n%s", r)
	}
	t.Logf("%s in %.1f s", ref, r.took.Seconds())
	return image{dir: dir, tag: ref[strings.LastIndex(ref, ":")+1:], digest: d}
}

func (s target) command(t *testing.T, dir string, flags ...string) command {
	t.Helper()
	args := []string{program(t), "--progress", "plain", "--os", "rocky9", "--driver", thinDriver, "--matrix", s.matrix,
		"--base", s.repo.Base(), "--output", "oci:" + dir}
	return command{env: []string{"http_proxy=" + s.proxy}, args: append(args, flags...)}
}

// reference lists the installed packages after dnf has installed, into a copy of the base, the packages that
// driver-build requests, including the headers of the newest kernel.
func (s target) reference(t *testing.T) []string {
	t.Helper()
	d := require.Value(distros.Lookup("rocky9"))(t)
	root := filepath.Join(scratch(t), "root")
	sh(t, "cp", "-a", filepath.Join(s.repo.Dir, "root"), root)
	args := []string{"dnf", "--assumeyes", "--installroot", root, "--setopt=proxy=" + s.proxy, "--setopt=varsdir=" + filepath.Join(root, "etc/dnf/vars"),
		"--setopt=reposdir=" + filepath.Join(root, "etc/yum.repos.d"), "--setopt=cachedir=" + scratch(t), "--setopt=install_weak_deps=False", "install"}
	// Of alternative headers dnf gets the first: the newest kernel is that of the plain package.
	headers, _, _ := strings.Cut(strings.TrimPrefix(d.Headers(s.repo.Kernel)[0], "("), " or ")
	command{env: []string{home(t, root)}, args: append(append(args, d.Toolchain("amd64")...), headers)}.want(t, 0)
	return names(rpm(t, root, allPackages...).want(t, 0).stdout)
}

// allPackages makes rpm list packages as "name-[epoch:]version-release.arch".
var allPackages = []string{"rpm", "-qa", "--qf", "%{NAME}-%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}.%{ARCH}\n"}

// rpm runs a program of this machine's rpm on a root.
func rpm(t *testing.T, root string, args ...string) command {
	t.Helper()
	return command{env: []string{home(t, root)}, args: slices.Concat(args[:1], []string{"--root", root}, args[1:])}
}

// home returns a home folder with which Debian's rpm, which has the database there, looks for it where the system has it.
func home(t *testing.T, root string) string {
	t.Helper()
	dir := root + ".home"
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".rpmmacros"), []byte("%_dbpath /var/lib/rpm\n"), 0o644))
	return "HOME=" + dir
}
