package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	oci, ociFile, docker := u.path("dist"), u.path("image.oci.tar"), u.path("image.tar")
	repository := u.Host + "/team/driver"
	r := u.run(t, "--os", "debian12", "--driver", newDriver, "-o", "oci:"+oci, "-o", "oci-archive:"+ociFile, "-o", "docker-archive:"+docker,
		"--push", "--repository", repository)
	r.want(t, 0, "packages layer", "driver 535.261.03", "write oci:")
	var digest string
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	tag := "535.261.03-debian12"
	for i, want := range []string{"oci:" + oci + ":" + tag, "oci-archive:" + ociFile + ":" + tag, "docker-archive:" + docker + ":" + repository + ":" + tag, repository + ":" + tag} {
		got, d, ok := strings.Cut(lines[i], "@")
		if !ok || got != want || digest != "" && d != digest {
			t.Errorf("line %d: %q, want %s@%s", i+1, lines[i], want, digest)
		}
		digest = d
	}
	for _, image := range []string{"oci:" + oci, "oci-archive:" + ociFile, "docker-archive:" + docker, repository + ":" + tag} {
		u.run(t, "verify", image).want(t, 0)
		r := u.run(t, "inspect", image, "-o", "json")
		r.want(t, 0)
		var i verify.Inspection
		if err := json.Unmarshal([]byte(r.stdout), &i); err != nil || i.Driver != newDriver || i.System != "debian12" {
			t.Errorf("%s: %+v, %v", image, i, err)
		}
		if !strings.HasPrefix(image, "docker") && i.Digest != digest {
			t.Errorf("%s: digest %s, want %s", image, i.Digest, digest)
		}
	}
	r = u.run(t, "inspect", "oci:"+oci)
	r.want(t, 0)
	goldentest.Compare(t, "testdata/inspect.txt", u.normal(r.stdout))
	r = u.run(t, "verify", "oci:"+oci, "-o", "json")
	r.want(t, 0)
	var findings []verify.Finding
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil || len(findings) != 1 {
		t.Errorf("%s: %v", r.stdout, err)
	}
	u.run(t, "verify", u.Base("debian12")).want(t, 5, "breaks the driver container's contract")
	r = u.run(t, "push", "oci:"+oci, u.Host+"/other/place:x")
	r.want(t, 0, "blobs: ")
	if r.stdout != u.Host+"/other/place:x@"+digest+"\n" {
		t.Errorf("%q", r.stdout)
	}
	u.run(t, "push", "oci:"+oci, u.Host+"/other/place:x").want(t, 0, "blobs: 0 sent")
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.run(t, "--os", "ubuntu18.04", "--driver", oldDriver, "--dry-run", "--profile", "compute")
	r.want(t, 0)
	var planned recipe.Recipe
	if err := json.Unmarshal([]byte(r.stdout), &planned); err != nil || planned.Tag != "418.87.01-ubuntu18.04" || planned.Profile != recipe.Compute || len(planned.Packages) == 0 {
		t.Errorf("%+v, %v", planned, err)
	}
	if _, err := os.Stat("dist"); err == nil || u.Requests(".run") != 0 {
		t.Error("a dry run built something")
	}
}

// TestOffline: after fetch, or after a build, a build sends no request and the digest is the same.
func TestOffline(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := []string{"--os", "debian12", "--driver", newDriver}
	u.run(t, append(target, "--offline", "-o", "oci:"+u.path("none"))...).want(t, 4, "--offline")
	r := u.run(t, append([]string{"fetch"}, target...)...)
	r.want(t, 0)
	if n := strings.Count(r.stdout, "sha256:"); n < 20 || !strings.Contains(r.stdout, u.Base("debian12")) {
		t.Errorf("%d lines:\n%s", n, r.stdout)
	}
	u.Fault(refuse(500, ""))
	first := u.run(t, append(target, "--offline", "-o", "oci:"+u.path("one"))...)
	first.want(t, 0)
	u.Fault(nil)
	second := u.run(t, append(target, "-o", "oci:"+u.path("two"), "--progress", "quiet")...)
	second.want(t, 0)
	if first.digest(t) != second.digest(t) {
		t.Error("the digests differ")
	}
	if second.stderr != "" {
		t.Errorf("quiet: %q", second.stderr)
	}
	r = u.run(t, append([]string{"fetch", "--only", "base"}, target...)...)
	r.want(t, 0)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Error(r.stdout)
	}
}

func TestManyTargets(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64", "--arch", "arm64", "-o", "oci:"+u.path("index"))
	r.want(t, 0)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("an index is one line: %s", r.stdout)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		u.run(t, "verify", "oci:"+u.path("index"), "--arch", arch).want(t, 0)
	}
	r = u.run(t, "--all", "-o", "oci:"+u.path("all"), "--compression", "zstd")
	r.want(t, 0)
	if n := strings.Count(r.stdout, "@sha256:"); n != 5 {
		t.Errorf("%d images:\n%s", n, r.stdout)
	}
	u.Archives["ubuntu16.04"].Lie = true
	u.Archives["ubuntu16.04"].Packages = u.Archives["ubuntu16.04"].Packages[:3]
	u.Archives["ubuntu16.04"].Publish()
	r = u.run(t, "--all", "-o", "oci:"+u.path("some"))
	r.want(t, 3, "2 of 5 targets", "418.87.01-ubuntu16.04", "535.261.03-ubuntu16.04")
	if n := strings.Count(r.stdout, "@sha256:"); n != 3 {
		t.Errorf("%d images:\n%s", n, r.stdout)
	}
}

func TestAllowIncompatible(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.run(t, "--os", "debian12", "--driver", oldDriver, "--allow-incompatible", "-o", "oci:"+u.path("x"))
	r.want(t, 0, "warning: 418.87.01-debian12 amd64: built although")
	r = u.run(t, "inspect", "oci:"+u.path("x"), "-o", "json")
	if !strings.Contains(r.stdout, recipe.LabelOverridden) {
		t.Error(r.stdout)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	file := u.path("driver.run")
	if err := os.WriteFile(file, u.Runs[newDriver+" amd64"], 0o600); err != nil {
		t.Fatal(err)
	}
	u.run(t, "--os", "debian12", "--driver", newDriver, "--source", file, "-o", "oci:"+u.path("a")).want(t, 0)
	u.run(t, "--os", "ubuntu18.04", "--driver", newDriver, "--source", u.URL+imagetest.RunPath(newDriver, "amd64"), "-o", "oci:"+u.path("b")).want(t, 0)
	if err := os.WriteFile(file, u.Runs[oldDriver+" amd64"], 0o600); err != nil {
		t.Fatal(err)
	}
	u.cache = t.TempDir()
	u.run(t, "--os", "debian12", "--driver", newDriver, "--source", file, "-o", "oci:"+u.path("c")).want(t, 5, "driver.run")
}

// TestBuildKeepsWhatIsThere: an output is written to a pipe and through a link, and neither is replaced.
func TestBuildKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	pipe, link, file := u.path("pipe"), u.path("link"), u.path("file.tar")
	for _, err := range []error{unix.Mkfifo(pipe, 0o600), os.WriteFile(file, nil, 0o600), os.Symlink(file, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan []byte, 1)
	go func() {
		data, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- data
	}()
	u.run(t, "--os", "debian12", "--driver", newDriver, "-o", "docker-archive:"+pipe, "-o", "oci-archive:"+link).want(t, 0)
	if err := os.WriteFile(u.path("read.tar"), <-read, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"docker-archive:" + u.path("read.tar"), "oci-archive:" + file} {
		u.run(t, "verify", image).want(t, 0)
	}
	for name, kind := range map[string]os.FileMode{pipe: os.ModeNamedPipe, link: os.ModeSymlink} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
}
