package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// typing calls driver-build with a password on stdin.
func typing(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr tool.Buffer
	a := &session.App{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Attempts: 2, Backoff: time.Millisecond,
	}
	code := a.Execute(t.Context(), newRootCmd(a), append(args, "--cache", t.TempDir(), "--progress", "plain"))
	return result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
}

// TestLogin: a right password is kept and used, a wrong one is refused and told apart from a missing image.
// The environment names the file of credentials, so this cannot run in parallel with others.
func TestLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.json")
	t.Setenv("REGISTRY_AUTH_FILE", file)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	w := imagetest.New(t)
	password := "right"
	w.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		if user, got, ok := r.BasicAuth(); ok && user == "ci" && got == password {
			return false
		}
		rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		rw.WriteHeader(http.StatusUnauthorized)
		return true
	})
	login := []string{"login", w.Host, "-u", "ci", "--password-stdin"}
	typing(t, "", "verify", w.Base("debian12")).Want(t, session.ExitNetwork, "not logged in, or no such image (401)", "driver-build login "+w.Host)
	r := typing(t, "wrong\n", login...)
	r.Want(t, session.ExitNetwork, "does not accept this user and password (401)")
	if _, err := os.Stat(file); err == nil || strings.Contains(r.Stderr, "wrong") {
		t.Errorf("a wrong password was kept, or told: %s", r.Stderr)
	}
	r = typing(t, "right\r\n", login...)
	r.Want(t, 0, "logged in to "+w.Host+" as ci", file)
	assert.Equal(t, "", r.Stdout)
	typing(t, "", "verify", w.Base("debian12")).Want(t, session.ExitMismatch) // it is read, and is no driver image
	typing(t, "", "verify", w.Host+"/base/none:1").Want(t, session.ExitNetwork, "no such image, tag or blob (404)")
	password = "changed"
	typing(t, "", "verify", w.Base("debian12")).Want(t, session.ExitNetwork, "does not accept the stored user and password (401)")
	typing(t, "", "logout", w.Host).Want(t, 0, "removed from "+file)
	typing(t, "", "logout", w.Host).Want(t, 0, "has no credentials of "+w.Host)
	if text := string(require.Value(os.ReadFile(file))(t)); strings.Contains(text, w.Host) {
		t.Error(text)
	}
	for args, want := range map[string]string{
		"login " + w.Host:                             "-u USER",
		"login " + w.Host + " -u ci":                  "--password-stdin",
		"login " + w.Host + " -u ci --password-stdin": "1 to",
		"login " + w.Host + "/gpu -u ci":              "no registry host",
		"login -u ci":                                 "usage:",
		"logout https://" + w.Host:                    "without scheme",
	} {
		typing(t, "", strings.Fields(args)...).Want(t, session.ExitUsage, want)
	}
}
