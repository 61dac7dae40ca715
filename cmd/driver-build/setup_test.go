package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.file(t, "own.yaml", u.Matrix())
	args := []string{"doctor", "--matrix", matrix, "--os", "ubuntu16.04"}
	states := func(r result) map[string]string {
		found := map[string]string{}
		for _, f := range commandtest.Items[session.Finding](t, r, "doctor.schema.json") {
			found[strings.Replace(f.Question, u.Host, "HOST", 1)] = f.State
		}
		return found
	}

	r := u.Run(t, append(args, "-o", "json", "--repository", u.Host+"/site/driver")...).Want(t, 0)
	found := states(r)
	for _, question := range []string{"cache", "programs amd64", "bases of HOST", "repository"} {
		assert.Equalf(t, "ok", found[question], "%s: %s", question, r.Stdout)
	}
	r = u.Run(t, append(args, "--repository", "localhost:1/x")...).Want(t, 3, "1 of ")
	for line := range strings.SplitSeq(strings.TrimSuffix(r.Stdout, "\n"), "\n") {
		assert.Equalf(t, strings.HasPrefix(line, "FAULT"), strings.Contains(line, " repository "), "%s", line)
	}
	assert.Contains(t, r.Stdout, "; to do: log in with docker login localhost:1")
	assert.Equal(t, "", states(u.Run(t, append(args, "-o", "json", "--offline")...))["bases of HOST"])

	u.Cache = matrix // a file
	u.Run(t, args...).Want(t, 2, "open the cache", "give another folder with --cache")
}

// TestAsk: a question without an answer ends after 20 seconds, and what only some builds need is a warning.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		absent := func(context.Context) (string, error) { return "", errors.Join(errors.New("one"), errors.New("two")) }
		assert.Same(t, []*session.Finding{
			{Question: "bad", State: "fault", Detail: "one; two", Fix: "do"},
			{Question: "rare", State: "warning", Detail: "one; two", Fix: "do"},
			{Question: "hangs", State: "fault", Detail: "no answer within 20s", Fix: "do"},
		}, ask(t.Context(), func(ask asker) {
			ask("bad", "fault", "do", absent)
			ask("rare", "warning", "do", absent)
			ask("hangs", "fault", "do", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		}))
	})
}

// offered returns what a shell would offer behind args, and the directive to the shell.
func offered(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	r := call(t.Context(), t, nil, append([]string{"__completeNoDesc"}, args...)...).Want(t, 0)
	lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

const (
	noFiles = ":4"
	anyFile = ":0"
)

// TestCompletion: a shell asks at every TAB, and nothing is downloaded or written.
func TestCompletion(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	cache := filepath.Join(t.TempDir(), "cache")
	matrix := u.file(t, "matrix.yaml", u.Matrix())
	before := u.Requests("/")
	for _, c := range []struct {
		args, want []string
		directive  string
	}{
		{[]string{"list", "--matrix", matrix, "--os", "ubuntu1"}, []string{"ubuntu16.04", "ubuntu18.04"}, noFiles},
		{[]string{"list", "--matrix", matrix, "--os", "debian12", "--driver", "4"}, nil, noFiles}, // 418 is too old for its kernel
		{[]string{"--matrix", matrix, "--driver", "418"}, []string{oldDriver}, noFiles},
		{[]string{"--matrix", "/no/such.yaml", "--driver", ""}, nil, noFiles},
		{[]string{"--cache", cache, "--arch", ""}, []string{"amd64", "arm64"}, noFiles},
		{[]string{"--flavour=o"}, []string{"open"}, noFiles},
		{[]string{"list", "--format", "y"}, []string{"yaml"}, noFiles},
		{[]string{"check", "-o", ""}, []string{"table", "json"}, noFiles},
		{[]string{"--repository", ""}, nil, noFiles},
		{[]string{"list", ""}, nil, noFiles},
		{[]string{"bundle", "create", "--output", ""}, nil, anyFile},
		{[]string{"verify", ""}, nil, anyFile},
		{[]string{"--module-key", ""}, nil, anyFile},
		{[]string{"li"}, []string{"list"}, noFiles},
	} {
		words, directive := offered(t, c.args...)
		assert.Equalf(t, strings.Join(c.want, " "), strings.Join(words, " "), "%q", c.args)
		assert.Equalf(t, c.directive, directive, "%q", c.args)
	}
	assert.Equalf(t, before, u.Requests("/"), "something was downloaded")
	assert.Errorf(t, assert.Err(os.Stat(cache)), "the cache was made")
	words, _ := offered(t, "--os", "debian12", "--driver", "") // of the matrix in the program
	assert.Equalf(t, true, slices.Contains(words, "535.261.03") && !slices.Contains(words, "418.87.01"), "drivers of debian12: %q", words)
}

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

// TestLogin: a right password is used, a wrong one is refused and told apart from a missing image.
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
	keep := func(password string) {
		entry := base64.StdEncoding.EncodeToString([]byte("ci:" + password))
		testfile.Write(t, file, fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, w.Host, entry))
	}
	verify := func(image string, code int, says ...string) {
		t.Helper()
		r := typing(t, "", "verify", image).Want(t, code, says...)
		assert.Equalf(t, false, strings.Contains(r.Stderr, "wrong-password"), "a password was told: %s", r.Stderr)
	}
	verify(w.Base("debian12"), session.ExitNetwork, "not logged in, or no such image (401)", "docker login "+w.Host)
	keep("wrong-password")
	verify(w.Base("debian12"), session.ExitNetwork, "does not accept the stored user and password (401)")
	keep(password)
	verify(w.Base("debian12"), session.ExitMismatch) // it is read, and is no driver image
	verify(w.Host+"/base/none:1", session.ExitNetwork, "no such image, tag or blob (404)")
}
