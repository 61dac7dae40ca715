package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// refuse answers requests for paths that contain part.
func refuse(code int, part string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.WriteHeader(code)
		return true
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	flip := func(u *user, path string) {
		data := bytes.Clone(u.File(path))
		data[len(data)/2] ^= 1
		u.Put(path, data)
	}
	for what, c := range map[string]struct {
		prepare func(*user)
		args    string
		code    int
		parts   []string
	}{
		"mirror":      {nil, "--mirror http://127.0.0.1:1/", 4, []string{"127.0.0.1:1"}},
		"mirror 500":  {func(u *user) { u.Fault(refuse(500, "/dists/")) }, "", 4, []string{"500", "InRelease"}},
		"package 404": {func(u *user) { u.Fault(refuse(404, "/pool/kmod")) }, "", 4, []string{"404", "kmod"}},
		"signature":   {func(u *user) { a := u.Archives["debian12"]; a.Signer = repotest.Key("imagetest", 0); a.Publish() }, "", 5, []string{"no trusted signature", "InRelease"}},
		"expired":     {func(u *user) { a := u.Archives["debian12"]; a.ValidUntil = time.Now().AddDate(0, 0, -2); a.Publish() }, "", 5, []string{"expired"}},
		"lying index": {func(u *user) { a := u.Archives["debian12"]; a.Lie = true; a.Publish() }, "", 5, []string{"Packages"}},
		"package":     {func(u *user) { a := u.Archives["debian12"]; flip(u, a.Path(*a.Find("make", "amd64"))) }, "", 5, []string{"make", "sha256"}},
		"missing package": {func(u *user) {
			a := u.Archives["debian12"]
			*a.Find("kmod", "amd64") = *a.Find("make", "amd64")
			a.Publish()
		}, "", 6, []string{"kmod"}},
		"base 401":         {func(u *user) { u.Fault(refuse(401, "/v2/base/")) }, "", 4, []string{"401", "/base/debian12"}},
		"base 429":         {func(u *user) { u.Fault(refuse(429, "/v2/base/")) }, "", 4, []string{"429"}},
		"base unreachable": {nil, "--base 127.0.0.1:1/x:y", 4, []string{"127.0.0.1:1"}},
		"base not there":   {nil, "--base oci:/no/such/folder", 2, []string{"/no/such/folder"}},
		"other base":       {nil, "--base WORLD/base/ubuntu16.04:test", 2, []string{"ubuntu 16.04"}},
		"push 401":         {func(u *user) { u.Fault(refuse(401, "/v2/team/")) }, "--push --repository WORLD/team/driver", 4, []string{"401", "/team/driver"}},
		"push 403":         {func(u *user) { u.Fault(refuse(403, "/v2/team/driver/blobs/uploads/")) }, "--push --repository WORLD/team/driver", 4, []string{"403", "push WORLD/team/driver"}},
		"push 500":         {func(u *user) { u.Fault(refuse(500, "/v2/team/driver/manifests/")) }, "--push --repository WORLD/team/driver", 4, []string{"500"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			if c.prepare != nil {
				c.prepare(u)
			}
			args := append([]string{"--os", "debian12", "--driver", newDriver}, strings.Fields(strings.ReplaceAll(c.args, "WORLD", u.Host))...)
			out := u.Path("dist")
			if !strings.Contains(c.args, "--push") {
				args = append(args, "--output", "oci:"+out)
			}
			before := u.Requests("/v2/base/") + u.Requests("/dists/")
			r := u.Run(t, args...)
			for i := range c.parts {
				c.parts[i] = strings.ReplaceAll(c.parts[i], "WORLD", u.Host)
			}
			r.Want(t, c.code, c.parts...)
			if what == "push 401" || what == "push 403" {
				assert.Equalf(t, before, u.Requests("/v2/base/")+u.Requests("/dists/"), "what was read before the push was refused")
			}
			_, text, _ := strings.Cut(r.Stderr, "driver-build: ")
			assert.Equalf(t, true, strings.Count(text, newDriver+"-debian12") <= 1, "the target is named more than once: %s", text)
			assert.Equalf(t, "", r.Stdout, "stdout")
			assert.Errorf(t, assert.Err(os.Stat(out)), "an output was begun")
		})
	}
}

// TestFirstCommand: a build that names no place says first where its result goes, and one that gets no base names
// the ways around the registry.
func TestFirstCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Fault(refuse(401, "/v2/base/"))
	r := u.Run(t, "--os", "debian12", "--driver", newDriver, "--progress", "plain")
	r.Want(t, 4, "--base oci:DIR", "make image OS=SYSTEM DRIVER="+newDriver)
	place := strings.Index(r.Stderr, "note: the result goes to oci:dist")
	assert.Equalf(t, true, place >= 0 && place < strings.Index(r.Stderr, "#1 "), "%s", r.Stderr)
	assert.Containsf(t, r.Stderr, "ERROR\n", "a step that failed, and nothing beside it")
}

func TestArchiveMismatch(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Put(imagetest.RunPath(oldDriver, "amd64"), bytes.Repeat([]byte("x"), len(u.Runs[oldDriver+" amd64"])))
	args := []string{"--os", "ubuntu18.04", "--driver", oldDriver, "--output", "oci:" + u.Path("dist")}
	u.Run(t, args...).Want(t, 5, ".run", "sha256")
	u.Put(imagetest.RunPath(oldDriver, "amd64"), u.Runs[oldDriver+" amd64"])
	u.Run(t, args...).Want(t, 0)
}

// leftovers lists files under dir that look half written.
func leftovers(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasPrefix(d.Name(), ".tmp") || strings.HasPrefix(d.Name(), "spool-")) {
			list = append(list, p)
		}
		return err
	}))
	return list
}

// TestCancel: wherever the work is when it is stopped, it ends at once, leaves nothing half written and can
// be done again.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"/v2/base/", "InRelease", "Packages.gz", "/pool/kmod", "/pool/libcuda1", "/v2/team/driver/blobs/uploads/"} {
		t.Run(strings.Trim(strings.ReplaceAll(part, "/", "-"), "-"), func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			var stopped time.Time
			var once sync.Once
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			u.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, part) {
					return false
				}
				once.Do(func() {
					stopped = time.Now()
					cancel(session.SignalError{Signal: syscall.SIGINT})
				})
				select {
				case <-r.Context().Done():
				case <-release:
				case <-time.After(2 * time.Minute):
				}
				return true
			})
			args := []string{"--os", "debian12", "--driver", newDriver, "--jobs", "1", "--output", "oci-archive:" + u.Path("x.tar"), "--push", "--repository", u.Host + "/team/driver"}
			r := u.RunContext(ctx, t, args...)
			assert.Equalf(t, true, time.Since(stopped) < 30*time.Second, "it took %v to stop", time.Since(stopped))
			r.Want(t, 130, "stopped by signal: interrupt; downloads are kept: run the same command again")
			assert.Same(t, []string(nil), append(leftovers(t, u.Cache), leftovers(t, u.Dir)...))
			u.Fault(nil)
			u.Run(t, args...).Want(t, 0)
		})
	}
}

// TestSignal: a real signal to a real process.
func TestSignal(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		u := newUser(t)
		u.file(t, "matrix.yaml", u.Matrix())
		asked := make(chan struct{}, 100)
		u.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Minute):
			}
			return true
		})
		cmd := exec.CommandContext(t.Context(), os.Args[0], "fetch", "--only", "base", "--os", "debian12", "--driver", newDriver, "--cache", u.Cache)
		cmd.Dir, cmd.Env = u.Dir, append(os.Environ(), asProgram+"=1", "GOCOVERDIR="+t.TempDir())
		var stderr tool.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		select {
		case <-asked:
		case <-time.After(2 * time.Minute):
			t.Errorf("%v: it asked for nothing: %s", sig, stderr.String())
		}
		require.NoError(t, cmd.Process.Signal(sig))
		start := time.Now()
		_ = cmd.Wait() // the exit code is below
		assert.Equalf(t, code, cmd.ProcessState.ExitCode(), "%v: exit code: %s", sig, stderr.String())
		assert.Equalf(t, true, time.Since(start) < 30*time.Second, "%v: it took %v to stop", sig, time.Since(start))
		assert.Containsf(t, stderr.String(), "stopped by signal", "%v", sig)
	}
}
