package registry

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// user returns whom the keychain finds for a repository.
func user(t *testing.T, repository string) string {
	t.Helper()
	r := require.Value(name.NewRepository(repository))(t)
	return require.Value(require.Value(userKeychain{}.ResolveContext(t.Context(), r))(t).Authorization())(t).Username
}

// environment gives the test a home of its own, without other files of credentials.
func environment(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, v := range []string{"DOCKER_AUTH_CONFIG", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	before := usersFolder
	usersFolder = filepath.Join(home, "users")
	t.Cleanup(func() { usersFolder = before })
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
	write(fmt.Sprintf("users/%d/auth.json", os.Getuid()), map[string]string{"a.example": "root"})
	check("a.example/x", "root")
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

	encoded := base64.StdEncoding.EncodeToString([]byte("runner:" + secret))
	t.Setenv("DOCKER_AUTH_CONFIG", `{"auths":{"c.example":{"auth":"`+encoded+`"}}}`)
	check("c.example/x", "runner")

	require.NoError(t, os.WriteFile(file, []byte(`{"auths":{"a.example":{"auth":"`+secret), 0o600))
	_, err := userKeychain{}.Resolve(require.Value(name.NewRepository("a.example/x"))(t))
	if assert.ErrorContains(t, err, "is not a file of credentials"); strings.Contains(err.Error(), secret) {
		t.Errorf("%v tells what is in the file", err)
	}
}

// TestEntryForms: an entry is found in the forms that docker, podman and a kubelet take, and covers nothing else.
func TestEntryForms(t *testing.T) {
	home := environment(t)
	file := filepath.Join(home, "auth.json")
	t.Setenv("REGISTRY_AUTH_FILE", file)
	encoded := base64.StdEncoding.EncodeToString([]byte("me:" + secret))
	const repository = "registry.example.com/team/driver"
	for key, finds := range map[string]bool{
		"registry.example.com":                        true,
		"registry.example.com/":                       true,
		"registry.example.com/v2/":                    true,
		"https://registry.example.com":                true,
		"https://registry.example.com/v1/":            true,
		"http://registry.example.com/v2":              true,
		"registry.example.com/team":                   true,
		"registry.example.com/team/driver":            true,
		"*.example.com":                               true,
		"registry.*.com":                              true,
		"*.example.com/team":                          true,
		"registry.example.com/tea":                    false,
		"registry.example.com/team/driver/x":          false,
		"*.com":                                       false,
		"*":                                           false,
		"*.registry.example.com":                      false,
		"registry.example.com:5000":                   false,
		"example.com":                                 false,
		"other.example.com/registry.example.com/team": false,
		"[": false,
	} {
		for form, text := range map[string]string{
			"today":  `{"auths":{%q:{"auth":%q}}}`,
			"fields": `{"auths":{%q:{"auth":%q,"email":"x@y"}},"psFormat":"x"}`,
			"older":  `{%q:{"auth":%q,"email":"x@y"}}`,
		} {
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, text, key, encoded), 0o600))
			want := ""
			if finds {
				want = "me"
			}
			assert.Equalf(t, want, user(t, repository), "%s, %s", key, form)
		}
	}
	for _, nothing := range []string{"", "{}", `{"auths":{}}`, `{"auths":{"registry.example.com":{}}}`, `{"psFormat":"x"}`, `{"registry.example.com":{}}`} {
		require.NoError(t, os.WriteFile(file, []byte(nothing), 0o600))
		assert.Equalf(t, "", user(t, repository), "%s", nothing)
	}
}

// TestLongestEntry: of the entries that cover a repository the longest counts, and a namespace comes before a helper.
func TestLongestEntry(t *testing.T) {
	home := environment(t)
	helperScript(t, home, `echo '{"Username":"helped","Secret":"s"}'`)
	text := `{"auths":{"*.example":{"username":"any","password":"p"},"a.example":{"username":"host","password":"p"},` +
		`"a.example/team":{"username":"team","password":"p"}},"credHelpers":{"b.example":"test"}}`
	require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(text), 0o600))
	for repository, want := range map[string]string{"a.example/x": "host", "a.example/team/x": "team", "b.example/x": "helped", "c.example/x": "any"} {
		assert.Equalf(t, want, user(t, repository), "%s", repository)
	}
}

// helperScript writes the helper program "test", and makes the folder Docker's.
func helperScript(t *testing.T, folder, script string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", folder)
	if !strings.HasPrefix(os.Getenv("PATH"), folder+":") {
		t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "docker-credential-test"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// TestHelperFaults: helpers that hang, fail or complain end in bounded time, and nothing that they print is shown. It
// changes the environment and the time limit, so it cannot run in parallel with others.
func TestHelperFaults(t *testing.T) {
	home := environment(t)
	defer func(d time.Duration) { helperTimeout = d }(helperTimeout)
	helperTimeout = 300 * time.Millisecond
	noise := "echo password=" + secret + " >&2; "
	for helper, tc := range map[string]struct{ script, want string }{
		"test hangs":       {noise + "sleep 30 & wait", "it took more than"},
		"test fails":       {noise + "echo " + secret + "; exit 1", "exit status 1"},
		"test says no":     {noise + "echo hello " + secret, "no credentials in JSON"},
		"test knows none":  {noise + "echo credentials not found in native keychain; exit 1", ""},
		"test works":       {noise + `echo '{"Username":"me","Secret":"` + secret + `"}'`, ""},
		"missing":          {"", "install it"},
		"../test":          {"", "no name of a program"},
		"test has a token": {`echo '{"Username":"<token>","Secret":"` + secret + `"}'`, ""},
	} {
		helperScript(t, home, tc.script)
		suffix, _, _ := strings.Cut(helper, " ")
		text := `{"credHelpers":{"a.example":"` + suffix + `"}}`
		require.NoError(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(text), 0o600))
		began := time.Now()
		_, err := userKeychain{}.ResolveContext(t.Context(), require.Value(name.NewRepository("a.example/x"))(t))
		if tc.want == "" {
			assert.NoErrorf(t, err, "%s", helper)
			continue
		}
		assert.ErrorContainsf(t, err, tc.want, "%s", helper)
		if took := time.Since(began); took > 10*time.Second || strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("%s, after %v: %v", helper, took, err)
		}
	}
}
