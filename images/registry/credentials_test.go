package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// user returns whom the keychain finds for a repository.
func user(t *testing.T, repository string) string {
	t.Helper()
	r := require.Value(name.NewRepository(repository))(t)
	return require.Value(userCredentials(t.Context(), r.RegistryStr(), r.RepositoryStr()))(t).Username
}

// environment gives the test a home of its own, without other files of credentials.
func environment(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, v := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	return home
}

// TestKeychain: which file counts. The test changes the environment, so it cannot run in parallel with others.
func TestKeychain(t *testing.T) {
	home := environment(t)
	write := func(path string, auths map[string]string) string {
		path = filepath.Join(home, path)
		var list []string
		for host, user := range auths {
			list = append(list, fmt.Sprintf("%q:{\"auth\":%q}", host, base64.StdEncoding.EncodeToString([]byte(user+":"+secret))))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(`{"auths":{`+strings.Join(list, ",")+`}}`), 0o600))
		return path
	}
	check := func(ref, want string) {
		t.Helper()
		assert.Equalf(t, want, user(t, ref), "user for %s is", ref)
	}
	check("a.example/x", "")
	write(".config/containers/auth.json", map[string]string{"a.example": "config", "b.example/team": "team", "docker.io": "hub"})
	check("a.example/x", "config")
	check("b.example/team/x", "team")
	check("b.example/other/x", "")
	check("debian", "hub")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	write("run/containers/auth.json", map[string]string{"a.example": "run"})
	check("a.example/x", "run")
	check("b.example/team/x", "team")
	write(".docker/config.json", map[string]string{"c.example": "docker"})
	check("c.example/x", "docker")
	write(".docker/config.json", map[string]string{"https://d.example/v1/": "old"})
	check("d.example/x", "old")
	helper := "#!/bin/sh\nread -r host\necho '{\"Username\":\"helped\",\"Secret\":\"s\"}'\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte(helper), 0o700))
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".docker/config.json"), []byte(`{"credHelpers":{"e.example":"test"}}`), 0o600))
	check("e.example/x", "helped")
	check("a.example/x", "run") // also where Docker has a configuration
	file := write("explicit.json", map[string]string{"c.example": "explicit"})
	t.Setenv("REGISTRY_AUTH_FILE", file)
	check("c.example/x", "explicit")
	check("a.example/x", "run")

	require.NoError(t, os.WriteFile(file, []byte(`{"auths":{"c.example":{"auth":"`+secret), 0o600))
	if _, err := userCredentials(t.Context(), "c.example", "x"); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a broken file: %v; want an error without its content", err)
	}
}

// What Store keeps, the keychain finds and Erase removes; everything else in the file stays. The environment
// changes, so this cannot run in parallel with others.
func TestStore(t *testing.T) {
	home := environment(t)
	file := filepath.Join(home, ".docker", "config.json")
	place := require.Value(StoreCredentials(t.Context(), "a.example:5000", "me", secret))(t)
	assert.Equal(t, file, place)
	assert.Equal(t, "me", user(t, "a.example:5000/team/x"))
	assert.Equal(t, os.FileMode(0o600), require.Value(os.Stat(file))(t).Mode())

	others := `{"auths":{"a.example":{"auth":"bWU6eA==","email":"x@y"},"https://b.example/v1/":{"auth":"b2xkOng="}},"psFormat":"a<b","new":{"n":12345678901234567890}}`
	require.NoError(t, os.WriteFile(file, []byte(others), 0o644))
	link := filepath.Join(home, "link.json")
	require.NoError(t, os.Symlink(file, link))
	t.Setenv("REGISTRY_AUTH_FILE", link)
	for _, r := range []string{"a.example", "docker.io", "c.example"} {
		require.Value(StoreCredentials(t.Context(), r, "you", secret))(t)
	}
	assert.Equal(t, "you you you old", strings.Join([]string{user(t, "a.example/x"), user(t, "debian"), user(t, "c.example/x"), user(t, "b.example/x")}, " "))
	assert.Equal(t, os.FileMode(0o600), require.Value(os.Stat(file))(t).Mode())
	for _, r := range []string{"docker.io", "c.example", "b.example"} {
		if _, found, err := EraseCredentials(t.Context(), r); err != nil || !found {
			t.Errorf("Erase(%s) = %v, %v", r, found, err)
		}
		assert.Equal(t, "", user(t, r+"/x"))
	}
	var before, after map[string]any
	require.NoError(t, json.Unmarshal([]byte(others), &before))
	require.NoError(t, json.Unmarshal(require.Value(os.ReadFile(link))(t), &after))
	delete(before, "auths")
	if a, ok := after["auths"].(map[string]any)["a.example"].(map[string]any); !ok || len(a) != 2 || a["email"] != "x@y" || len(after["auths"].(map[string]any)) != 1 {
		t.Errorf("entries %v", after["auths"])
	}
	delete(after, "auths")
	assert.Equal(t, "", cmp.Diff(before, after))
	if text := string(require.Value(os.ReadFile(link))(t)); !strings.Contains(text, "12345678901234567890") {
		t.Errorf("a number was changed: %s", text)
	}
	if _, found, err := EraseCredentials(t.Context(), "none.example"); err != nil || found {
		t.Errorf("Erase of a registry without credentials = %v, %v", found, err)
	}
}

func TestStoreHelper(t *testing.T) {
	home := environment(t)
	file := filepath.Join(home, "config.json")
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\necho \"$1\" >>" + home + "/log\ncat >>" + home + "/log\n[ \"$1\" != erase ] || { echo keyring is locked; exit 1; }\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte(script), 0o700))
	text := `{"credHelpers":{"a.example":"test","b.example":"missing","c.example":"../x"}}`
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	place := require.Value(StoreCredentials(t.Context(), "a.example", "me", secret))(t)
	assert.Equal(t, "docker-credential-test ("+file+" names it)", place)
	assert.Equal(t, "store\n"+`{"ServerURL":"a.example","Username":"me","Secret":"`+secret+`"}`, string(require.Value(os.ReadFile(home+"/log"))(t)))
	_, _, err := EraseCredentials(t.Context(), "a.example")
	assert.ErrorContains(t, err, "keyring is locked")
	for host, want := range map[string]string{"b.example": "install it", "c.example": "no name of a program"} {
		_, err := StoreCredentials(t.Context(), host, "me", secret)
		if assert.ErrorContains(t, err, want); strings.Contains(err.Error(), secret) {
			t.Errorf("%v tells the password", err)
		}
	}
	assert.Equal(t, text, string(require.Value(os.ReadFile(file))(t)))
}

// TestHelperFaults: helpers that hang, fail or complain. Nothing of what they print reaches the terminal as it is, and
// no secret. It changes the environment and the time limit, so it cannot run in parallel with others.
func TestHelperFaults(t *testing.T) {
	home := environment(t)
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	defer func(d time.Duration) { helperTimeout = d }(helperTimeout)
	helperTimeout = 300 * time.Millisecond
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(`{"credHelpers":{"a.example":"test"}}`), 0o600))
	calls := map[string]func() error{
		"get":   func() error { return assert.Err(userCredentials(t.Context(), "a.example", "x")) },
		"store": func() error { return assert.Err(StoreCredentials(t.Context(), "a.example", "me", secret)) },
		"erase": func() error { _, _, err := EraseCredentials(t.Context(), "a.example"); return err },
	}
	noise := "printf 'keyring locked \\033[31m password=" + secret + " https://me:" + secret + "@h.example eyJhbGciOiJIUzI1NiJ9.e30.x12\\r\\n" + strings.Repeat("m", 4000) + "' >&2\n"
	for name, c := range map[string]struct{ script, want string }{
		"hangs": {noise + "sleep 30 & wait", "it took more than"}, "fails": {noise + "exit 1", "keyring locked"}, "says it on stdout": {"exec 2>&1\n" + noise + "exit 1", "keyring locked"},
		"fails beside its answer": {noise + `echo '{"Username":"me","Secret":"other-secret"}'` + "\necho other-secret >&2\nexit 1", "exit status 1"},
		"works":                   {noise + `[ "$1" != get ] || echo '{"Username":"me","Secret":"` + secret + `"}'`, ""}, "has no credentials": {"echo credentials not found in native keychain; exit 1", ""},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
		for action, call := range calls {
			began := time.Now()
			err := call()
			if c.want == "" && (action == "get" || name == "works") {
				assert.NoErrorf(t, err, "%s %s", name, action)
				continue
			}
			assert.ErrorContainsf(t, err, c.want, "%s %s", name, action)
			if text := fmt.Sprint(err); time.Since(began) > 10*time.Second || len(text) > 700 || strings.ContainsAny(text, "\x1b\r\n") ||
				strings.Contains(text, secret) || strings.Contains(text, "other-secret") || strings.Contains(text, "eyJ") {
				t.Errorf("%s %s, after %v: %q", name, action, time.Since(began), text)
			}
		}
	}
}

func TestStoreRefuses(t *testing.T) {
	home := environment(t)
	file := filepath.Join(home, "auth.json")
	t.Setenv("REGISTRY_AUTH_FILE", file)
	for _, text := range []string{"{", "[]", "null", `{"auths":[]}`, `{"auths":{"a.example":"` + secret + `"}}`, `{"auths":{}} x`, strings.Repeat(" ", maxCredentials+1)} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := StoreCredentials(t.Context(), "a.example", "me", "other")
		if assert.ErrorContains(t, err, "nothing was changed"); strings.Contains(err.Error(), secret) {
			t.Errorf("%v tells the content", err)
		}
		assert.Equal(t, text, string(require.Value(os.ReadFile(file))(t)))
	}
	require.NoError(t, os.Remove(file))
	for _, bad := range [][3]string{{"a.example/team", "me", "x"}, {"", "me", "x"}, {"a.example", "", "x"}, {"a.example", "me", ""}, {"a.example", "m:e", "x"}} {
		_, err := StoreCredentials(t.Context(), bad[0], bad[1], bad[2])
		assert.Errorf(t, err, "%q was accepted", bad)
	}
	left := require.Value(os.ReadDir(home))(t)
	assert.Equal(t, 0, len(left))
}
