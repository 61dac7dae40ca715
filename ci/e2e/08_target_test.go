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

// target is a system whose repositories the test makes, and a driver.
type target struct {
	id, base string // "rocky9", "oci:DIR"
	proxy    string // "http_proxy=ADDRESS" of the server of all hosts
	matrix   string
}

// rpmTarget is a target with .rpm packages.
type rpmTarget struct {
	target
	repo *realrepo.System
}

// archiveHost is the host that serves the driver.
const archiveHost = "archive.example"

// rpmSystem makes the repositories of a system, or takes them from the cache, and serves them and the
// driver's archive.
func rpmSystem(t *testing.T, id string, headers realrepo.Headers) rpmTarget {
	t.Helper()
	repo := realrepo.Make(t, realrepo.Options{System: id, Headers: headers})
	return rpmTarget{serveTarget(t, id, repo), repo}
}

// serveTarget serves the hosts of a system and the driver to clients that use the server as their proxy.
func serveTarget(t *testing.T, id string, repo *realrepo.System) target {
	t.Helper()
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
	return target{id: id, base: repo.Base(), proxy: "http_proxy=" + server.URL, matrix: archiveMatrix(t, id, archive)}
}

// driverArchive returns an archive of the driver, made of Debian's packages. Journeys share it: the same file
// gives the same layers.
func driverArchive(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(workspace(t), "archives")
	made := require.Value(filepath.Glob(filepath.Join(dir, "*-"+thinDriver+".run")))(t)
	if len(made) == 1 {
		return made[0]
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	file := generate(t, debian(t, "debian12", thinDriver).driverTree(t), thinDriver, "zstd", scratch(t))
	to := filepath.Join(dir, filepath.Base(file))
	require.NoError(t, os.Rename(file, to))
	return to
}

// archiveMatrix returns a matrix of one system and the driver, whose archive is on archiveHost.
func archiveMatrix(t *testing.T, system, archive string) string {
	t.Helper()
	f := require.Value(os.Open(archive))(t)
	defer f.Close() //nolint:errcheck // read only
	sum := sha256.New()
	size := require.Value(io.Copy(sum, f))(t)
	text := fmt.Sprintf(`systems:
  - {id: %s, base: "registry.invalid/base:latest", archs: [amd64], kernels: [6.1]}
drivers:
  - version: %s
    flavours: [proprietary]
    archives:
      amd64: {url: "http://%s/%s", sha256: %s, size: %d}
`, system, thinDriver, archiveHost, filepath.Base(archive), hex.EncodeToString(sum.Sum(nil)), size)
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
	args := []string{program(t), "--progress", "plain", "--os", s.id, "--driver", thinDriver, "--matrix", s.matrix, "--base", s.base, "--output", "oci:" + dir}
	return command{env: []string{s.proxy}, args: append(args, flags...)}
}

func (s rpmTarget) ndb() bool { return strings.HasPrefix(s.id, "opensuse") }

// resolver returns the program whose result is compared with the packages of an image.
func (s rpmTarget) resolver() string {
	if s.ndb() {
		return "zypper"
	}
	return "dnf"
}

// reference lists the installed packages after the system's program has installed, into a copy of the base,
// the packages that driver-build requests, including the headers of the newest kernel.
func (s rpmTarget) reference(t *testing.T) []string {
	t.Helper()
	d := require.Value(distros.Lookup(s.id))(t)
	root := filepath.Join(scratch(t), "root")
	sh(t, "cp", "-a", filepath.Join(s.repo.Dir, "root"), root)
	proxy := strings.TrimPrefix(s.proxy, "http_proxy=")
	args := []string{"zypper", "--root", root, "--non-interactive", "--gpg-auto-import-keys", "--releasever", strings.TrimPrefix(s.id, "opensuse-leap"), "install", "--no-recommends"}
	if !s.ndb() {
		args = []string{"dnf", "--assumeyes", "--installroot", root, "--setopt=proxy=" + proxy, "--setopt=varsdir=" + filepath.Join(root, "etc/dnf/vars"),
			"--setopt=reposdir=" + filepath.Join(root, "etc/yum.repos.d"), "--setopt=cachedir=" + scratch(t), "--setopt=install_weak_deps=False", "install"}
	}
	// Of alternative headers dnf gets the first: the newest kernel is that of the plain package.
	headers, _, _ := strings.Cut(strings.TrimPrefix(d.Headers(s.repo.Kernel)[0], "("), " or ")
	command{env: []string{s.proxy, s.home(t, root)}, args: append(append(args, d.Toolchain("amd64")...), headers)}.want(t, 0)
	return s.names(s.hostRPM(t, root, allPackages...).want(t, 0).stdout)
}

// allPackages makes rpm list packages as "name-[epoch:]version-release.arch".
var allPackages = []string{"rpm", "-qa", "--qf", "%{NAME}-%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}.%{ARCH}\n"}

// rpm runs a program of rpm's on the root of an image: that of a Debian whose rpm has SUSE's format of database.
func (s rpmTarget) rpm(t *testing.T, root string, args ...string) command {
	t.Helper()
	if !s.ndb() {
		return s.hostRPM(t, root, args...)
	}
	const script = `mount --rbind "$1" "$2/mnt"; debian=$2 program=$3; shift 3; exec chroot "$debian" "$program" --root /mnt "$@"`
	args = slices.Concat(args[:1], []string{"--define", "_db_backend ndb", "--dbpath", s.database()}, args[1:])
	return command{args: append([]string{"unshare", "--mount", "sh", "-ec", script, "sh", root, realrepo.Debian(t, "trixie")}, args...)}
}

// hostRPM runs a program of this machine's rpm on a root. Debian's rpm looks for the database in the home
// folder.
func (s rpmTarget) hostRPM(t *testing.T, root string, args ...string) command {
	t.Helper()
	return command{env: []string{s.home(t, root)}, args: slices.Concat(args[:1], []string{"--root", root}, args[1:])}
}

func (s rpmTarget) database() string {
	if s.ndb() {
		return "/usr/lib/sysimage/rpm"
	}
	return "/var/lib/rpm"
}

// home returns a home folder with which rpm looks for the database where the system has it.
func (s rpmTarget) home(t *testing.T, root string) string {
	t.Helper()
	dir := root + ".home"
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".rpmmacros"), []byte("%_dbpath "+s.database()+"\n"), 0o644))
	return "HOME=" + dir
}

// generate writes a .run archive of a driver's tree into dir.
func generate(t *testing.T, tree, driver, compression, dir string) string {
	t.Helper()
	a, skipped, err := makeself.FromTree(os.DirFS(tree), driver, "x86_64")
	require.NoError(t, err)
	for _, name := range skipped {
		if !strings.HasPrefix(name, "licenses/") && name != "usr/lib/firmware/nvidia/"+driver { // a link to the firmware
			t.Errorf("the generator has no place for %s", name)
		}
	}
	a.Compression = compression
	file := filepath.Join(dir, a.Name())
	require.NoError(t, a.WriteFile(t.Context(), file))
	return file
}
