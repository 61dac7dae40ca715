package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
)

// newDistribution starts Debian's docker-registry. With DRIVER_E2E=1 a missing program is an error.
func newDistribution(t *testing.T) *ocitest.Distribution {
	t.Helper()
	if _, err := exec.LookPath("docker-registry"); err != nil && os.Getenv("DRIVER_E2E") != "1" {
		t.Skip("docker-registry is not installed (Debian package docker-registry)")
	}
	return ocitest.NewDistribution(t)
}

// layersIn are the digests of an image's layers in a registry, by their names.
func (u *user) layersIn(t *testing.T, ref string) map[string]string {
	t.Helper()
	r := u.Run(t, "inspect", ref, "-o", "json")
	r.Want(t, 0)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`"digest": "(sha256:[0-9a-f]{64})",[^}]*"createdBy": "([^"]*)"`).FindAllStringSubmatch(r.Stdout, -1) {
		_, name, _ := strings.Cut(m[2], ": ")
		all[name] = m[1]
	}
	return all
}

// TestRealSharing: in Debian's docker-registry, an image of another system, and one of another driver, get
// the layers that they share with an image of another repository by mounting: nothing of them is downloaded,
// made or sent.
func TestRealSharing(t *testing.T) {
	t.Parallel()
	u, d := newUser(t), newDistribution(t)
	from, to := d.Host+"/team/driver", d.Host+"/other/driver"
	u.Run(t, "--os", "ubuntu16.04", "--driver", newDriver, "--push", "--repository", from).Want(t, 0)
	first := u.layersIn(t, from+":535.261.03-ubuntu16.04")
	for _, c := range []struct {
		system, driver, files string   // what is not asked for
		shared                []string // layers
	}{
		{"ubuntu18.04", newDriver, ".run", []string{"user-mode driver", "kernel sources", "entrypoint"}},
		{"ubuntu16.04", oldDriver, ".deb", []string{"packages", "entrypoint"}},
	} {
		tag := c.driver + "-" + c.system
		args := []string{"--os", c.system, "--driver", c.driver}
		plain := u.fresh(t).Run(t, append(args, "--output", "oci:"+u.Path("plain"))...)
		plain.Want(t, 0)
		before := u.Requests(c.files)
		r := u.fresh(t).Run(t, append(args, "--push", "--repository", to, "--cache-from", from)...)
		r.Want(t, 0)
		assert.Equalf(t, plain.Digest(t), r.Digest(t), "%s", tag)
		assert.Equalf(t, before, u.Requests(c.files), "%s: requests for %s\n%s", tag, c.files, r.Stderr)
		second := u.layersIn(t, to+":"+tag)
		for _, name := range c.shared {
			digest := first[name]
			assert.Equalf(t, digest, second[name], "%s: layer %q of %v", tag, name, first)
			mount := regexp.QuoteMeta("POST /v2/other/driver/blobs/uploads/?from=team%2Fdriver&mount=" + strings.ReplaceAll(digest, ":", "%3A"))
			if name != "entrypoint" || c.driver == newDriver { // the first image has it there for the second one
				assert.Equalf(t, 1, d.Requests(mount), "%s: mounts of layer %q", tag, name)
			}
			assert.Equalf(t, 0, d.Requests("GET .*/blobs/"+digest), "%s: downloads of layer %q", tag, name)
		}
		u.Run(t, "verify", to+":"+tag).Want(t, 0)
	}
}

// TestRealDamage: whatever happens to a layer on the disk of Debian's docker-registry, a build that writes to
// this machine has the right image. A build that pushes sends again what the registry lost.
func TestRealDamage(t *testing.T) {
	t.Parallel()
	u, d := newUser(t), newDistribution(t)
	repository := d.Host + "/team/driver"
	args := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	push := append(args, "--push", "--repository", repository, "--sbom")
	first := u.Run(t, push...)
	first.Want(t, 0)
	layers := u.layersIn(t, repository+":535.261.03-ubuntu18.04")
	for name, damage := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] }, "longer": func(b []byte) []byte { return append(b, "more"...) },
		"empty": func([]byte) []byte { return nil }, "another layer": func([]byte) []byte {
			return require.Value(os.ReadFile(d.Blob(layers["entrypoint"])))(t)
		}, "removed": nil,
	} {
		for _, layer := range []string{"packages", "user-mode driver"} {
			file := d.Blob(layers[layer])
			good := require.Value(os.ReadFile(file))(t)
			if damage == nil {
				require.NoError(t, os.Remove(file))
			} else {
				require.NoError(t, os.WriteFile(file, damage(bytes.Clone(good)), 0o600))
			}
			m := u.fresh(t)
			r := m.Run(t, append(args, "--output", "oci:"+m.Path("dist"), "--cache-from", repository)...)
			r.Want(t, 0, "the "+layer+" layer is made here, because the registry's copy cannot be used")
			assert.Equalf(t, first.Digest(t), r.Digest(t), "%s %s", layer, name)
			m.Run(t, "verify", "oci:"+m.Path("dist")).Want(t, 0)
			if damage == nil {
				r := u.fresh(t).Run(t, push...)
				r.Want(t, 0, "had lost the blob "+layers[layer])
				assert.Equal(t, first.Stdout, r.Stdout)
				assert.Equalf(t, true, bytes.Equal(good, require.Value(os.ReadFile(file))(t)), "%s on the registry's disk", layer)
				u.fresh(t).Run(t, "verify", repository+":535.261.03-ubuntu18.04").Want(t, 0)
			}
			require.NoError(t, os.WriteFile(file, good, 0o600))
		}
	}
}

// TestRealRestart: a registry that is killed while a build reads from it or pushes to it, and comes back
// soon, late or never, costs time or an error. The image is always the right one.
func TestRealRestart(t *testing.T) {
	t.Parallel()
	u, d := newUser(t), newDistribution(t)
	repository := d.Host + "/team/driver"
	args := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	first := u.Run(t, append(args, "--push", "--repository", repository, "--sbom")...)
	first.Want(t, 0)
	for name, c := range map[string]struct {
		request string // that kills the server
		after   time.Duration
	}{
		"manifest": {"GET .*/manifests/", 0}, "first blob": {"GET .*/blobs/", 0}, "soon": {"GET .*/blobs/", 200 * time.Millisecond}, "never": {"GET .*/blobs/", time.Hour},
		"push begins": {"POST .*/uploads/", 0}, "in a push": {"P(ATCH|UT) .*/uploads/", 50 * time.Millisecond}, "before the tag": {"PUT .*/manifests/", time.Hour},
	} {
		m, again := u.fresh(t), killAt(d, c.request, c.after)
		r := m.Run(t, append(args, "--output", "oci:"+m.Path("dist"), "--cache-from", repository)...)
		r.Want(t, 0)
		assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", name)
		m.Run(t, "verify", "oci:"+m.Path("dist")).Want(t, 0)
		to := d.Host + "/" + strings.ReplaceAll(name, " ", "-") + "/driver"
		if r := u.fresh(t).Run(t, append(args, "--push", "--repository", to, "--cache-from", repository)...); r.Code == 0 {
			assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", name)
		} else {
			assert.Containsf(t, r.Stderr, d.Host, "%s: the error", name)
		}
		assert.Equalf(t, true, again(), "%s: the server is killed", name)
		r = u.fresh(t).Run(t, append(args, "--push", "--repository", to, "--cache-from", repository)...)
		r.Want(t, 0)
		assert.Equalf(t, first.Digest(t), r.Digest(t), "%s", name)
		u.fresh(t).Run(t, "verify", to+":535.261.03-ubuntu18.04").Want(t, 0)
	}
}

// killAt kills the server at a request and starts it again after some time. The returned function sees to it
// that the server runs, and that nothing kills it any more. It says whether the server was killed.
func killAt(d *ocitest.Distribution, request string, after time.Duration) (again func() bool) {
	var once sync.Once
	pattern, done, started := regexp.MustCompile("^"+request), make(chan struct{}), make(chan struct{})
	d.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if pattern.MatchString(r.Method + " " + r.URL.Path) {
			once.Do(func() {
				d.Stop()
				go func() {
					defer close(started)
					select {
					case <-time.After(after):
					case <-done:
					}
					d.Start()
				}()
			})
		}
		return false
	})
	return func() bool {
		d.Fault(nil)
		close(done)
		killed := true
		once.Do(func() { killed = false; close(started) })
		<-started
		return killed
	}
}
