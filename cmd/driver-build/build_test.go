package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	oci, ociFile, docker := u.Path("dist"), u.Path("image.oci.tar"), u.Path("image.tar")
	repository := u.Host + "/team/driver"
	r := u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+oci, "--output", "oci-archive:"+ociFile, "--output", "docker-archive:"+docker,
		"--push", "--repository", repository).Want(t, 0, "packages layer", "driver 535.261.03", "write oci:")
	var digest string
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	tag := "535.261.03-debian12"
	for i, want := range []string{"oci:" + oci + ":" + tag, "oci-archive:" + ociFile + ":" + tag, "docker-archive:" + docker + ":" + repository + ":" + tag, repository + ":" + tag} {
		got, d, ok := strings.Cut(lines[i], "@")
		if !ok || got != want || digest != "" && d != digest {
			t.Errorf("line %d: %q, want %s@%s", i+1, lines[i], want, digest)
		}
		digest = d
	}
	for _, image := range []string{"oci:" + oci, "oci-archive:" + ociFile, "docker-archive:" + docker, repository + ":" + tag, oci, oci + ":" + tag, ociFile, docker} {
		u.Run(t, "verify", image).Want(t, 0)
		r := u.Run(t, "inspect", image, "-o", "json").Want(t, 0)
		var i verify.Inspection
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &i))
		assert.Equalf(t, newDriver+" debian12", i.Driver+" "+i.System, "%s", image)
		assert.Equalf(t, true, i.Digest == digest || strings.HasSuffix(image, docker), "%s: digest %s, want %s", image, i.Digest, digest)
	}
	goldentest.Compare(t, "testdata/inspect.txt", u.Normal(u.Run(t, "inspect", "oci:"+oci).Want(t, 0).Stdout))
	goldentest.Compare(t, "testdata/inspect-deep.txt", u.Normal(u.Run(t, "inspect", "oci:"+oci, "--deep").Want(t, 0).Stdout))
	r = u.Run(t, "verify", "oci:"+oci, "-o", "json").Want(t, 0)
	var rules []string
	for _, finding := range commandtest.Items[verify.Finding](t, r, "verify.schema.json") {
		rules = append(rules, finding.Rule)
	}
	assert.Equalf(t, "dependencies fabric", strings.Join(rules, " "), "%s", r.Stdout)
	u.Run(t, "verify", u.Base("debian12")).Want(t, 5, "breaks the driver container's contract")
	r = u.Run(t, "push", oci, u.Host+"/other/place:x").Want(t, 0, "blobs: ")
	assert.Equal(t, u.Host+"/other/place:x@"+digest+"\n", r.Stdout)
	u.Run(t, "push", "oci:"+oci, u.Host+"/other/place:x").Want(t, 0, "blobs: 0 sent")
	u.Run(t, "push", u.Host+"/other/place:x", u.Host+"/third/place:x", "--tag", "y", "--mount-from", u.Host+"/other/place").Want(t, 0, "blobs: 0 sent")
	u.Run(t, "push", "oci:"+oci, u.Host+"/third/place:y", "--offline").Want(t, 0, "blobs: 0 sent")
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.Run(t, "--os", "ubuntu18.04", "--driver", oldDriver, "--dry-run", "--profile", "compute").Want(t, 0)
	var planned recipe.Recipe
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &planned))
	assert.Equalf(t, true, planned.Tag == "418.87.01-ubuntu18.04" && planned.Profile == recipe.Compute && len(planned.Packages) > 0, "%+v", planned)
	assert.Equalf(t, true, assert.Err(os.Stat("dist")) != nil && u.Requests(".run") == 0, "a dry run built something")
}

// TestOffline: after fetch, or after a build, a build sends no request and the digest is the same.
func TestOffline(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := []string{"--os", "debian12", "--driver", newDriver}
	u.Run(t, append(target, "--offline", "--output", "oci:"+u.Path("none"))...).Want(t, 4, "--offline")
	r := u.Run(t, append([]string{"fetch"}, target...)...).Want(t, 0)
	assert.Equalf(t, true, strings.Count(r.Stdout, "sha256:") >= 20, "lines:\n%s", r.Stdout)
	assert.Contains(t, r.Stdout, u.Base("debian12"))
	u.Fault(refuse(500, ""))
	first := u.Run(t, append(target, "--offline", "--output", "oci:"+u.Path("one"))...).Want(t, 0)
	u.Fault(nil)
	second := u.Run(t, append(target, "--output", "oci:"+u.Path("two"), "--progress", "quiet")...).Want(t, 0)
	assert.Equalf(t, second.Digest(t), first.Digest(t), "the digests differ")
	assert.Equalf(t, "", second.Stderr, "quiet")
	r = u.Run(t, append([]string{"fetch", "--only", "base"}, target...)...).Want(t, 0)
	assert.Equalf(t, 1, strings.Count(r.Stdout, "\n"), "%v", r.Stdout)
}

func TestManyTargets(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64", "--arch", "arm64", "--output", "oci:"+u.Path("index")).Want(t, 0)
	assert.Equalf(t, 1, strings.Count(r.Stdout, "\n"), "an index is one line: %s", r.Stdout)
	for _, arch := range []string{"amd64", "arm64"} {
		u.Run(t, "verify", "oci:"+u.Path("index"), "--arch", arch).Want(t, 0)
	}
	r = u.Run(t, "--all", "--output", "oci:"+u.Path("all"), "--compression", "zstd").Want(t, 0)
	assert.Equalf(t, 5, strings.Count(r.Stdout, "@sha256:"), "images: %s", r.Stdout)
}

func TestAllowIncompatible(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Run(t, "--os", "debian12", "--driver", oldDriver, "--allow-incompatible", "--output", "oci:"+u.Path("x")).
		Want(t, 0, "warning: 418.87.01-debian12 amd64: built although")
	assert.Contains(t, u.Run(t, "inspect", "oci:"+u.Path("x"), "-o", "json").Stdout, recipe.LabelOverridden)
}

func TestSource(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.file(t, "driver.run", string(u.Runs[newDriver+" amd64"]))
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--source", file, "--output", "oci:"+u.Path("a")).Want(t, 0)
	u.Run(t, "--os", "ubuntu18.04", "--driver", newDriver, "--source", u.URL+imagetest.RunPath(newDriver, "amd64"), "--output", "oci:"+u.Path("b")).Want(t, 0)
	testfile.Write(t, file, string(u.Runs[oldDriver+" amd64"]))
	u.Cache = t.TempDir()
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--source", file, "--output", "oci:"+u.Path("c")).Want(t, 5, "driver.run")
}

// TestBuildKeepsWhatIsThere: an output is written to a pipe and through a link, and neither is replaced.
func TestBuildKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	pipe, link, file := u.Path("pipe"), u.Path("link"), u.Path("file.tar")
	require.NoError(t, errors.Join(unix.Mkfifo(pipe, 0o600), os.WriteFile(file, nil, 0o600), os.Symlink(file, link)))
	read := make(chan []byte, 1)
	go func() {
		data, err := os.ReadFile(pipe)
		assert.NoError(t, err)
		read <- data
	}()
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "docker-archive:"+pipe, "--output", "oci-archive:"+link).Want(t, 0)
	for _, image := range []string{"docker-archive:" + u.file(t, "read.tar", string(<-read)), "oci-archive:" + file} {
		u.Run(t, "verify", image).Want(t, 0)
	}
	for name, kind := range map[string]os.FileMode{pipe: os.ModeNamedPipe, link: os.ModeSymlink} {
		assert.Equalf(t, kind, require.Value(os.Lstat(name))(t).Mode().Type(), "%s", name)
	}
}

// manyTargets is a user with a matrix of 4 systems by 3 drivers.
func manyTargets(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.In(t, imagetest.NewFleet(t, imagetest.Fleet{Systems: 4, Drivers: 3, Files: 20}), newRootCmd)}
}

const fleetTargets = 12

// TestManyFail: what cannot be built is reported once for each cause, and everything else is built.
func TestManyFail(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "535.101.01"):
			http.NotFound(rw, r)
		case strings.Contains(r.URL.Path, "/base/debian13"):
			http.Error(rw, "closed", http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	r := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 3, "6 of 12 targets")
	assert.Equalf(t, 6, strings.Count(r.Stdout, "@sha256:"), "images that were built")
	for _, cause := range []string{"do not allow to pull", "535.101.01.run"} {
		assert.Equalf(t, 1, strings.Count(r.Stderr, cause), "how often %s is named:\n%s", cause, r.Stderr)
	}
	u.Fault(nil)
	again := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 0)
	assert.Equalf(t, fleetTargets, strings.Count(again.Stdout, "@sha256:"), "images in the end")
}

// TestManyRequests: what a call asks of the network does not grow with the number of drivers.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Run(t, "--all", "--dry-run").Want(t, 0)
	asked := func(args string) int {
		t.Helper()
		before := u.Requests("")
		u.tool(t, args).Want(t, 0)
		return u.Requests("") - before
	}
	alone := asked("--dry-run --driver 535.100.01 --os debian12 --os debian13 --os ubuntu22.04 --os ubuntu24.04")
	for _, args := range []string{"--all --dry-run", "lock --lock " + u.Path("other.lock")} {
		assert.Equalf(t, alone, asked(args), "requests of %s", args)
	}
	assert.Equalf(t, 0, asked("report --releases none --html "+u.Path("page.html")), "a report without a registry")
}

// TestFetchSome: a target that cannot be downloaded does not stop the others, and each error is told.
func TestFetchSome(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Fault(refuse(404, imagetest.RunPath(oldDriver, "amd64")))
	args := []string{"fetch", "--os", "debian12", "--os", "ubuntu18.04", "--driver", oldDriver, "--driver", newDriver, "--all"}
	r := u.Run(t, args...).Want(t, 3, "1 of 3 targets: some targets failed", oldDriver+"-ubuntu18.04")
	assert.Contains(t, r.Stdout, imagetest.RunPath(newDriver, "amd64"))
}
