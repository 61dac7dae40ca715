package credentials

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

const secret = "hunter2-secret"

// The test changes the environment, so it cannot run in parallel with others.
func TestKeychain(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
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
	user := func(ref string) string {
		t.Helper()
		repo := require.Value(name.NewRepository(ref))(t)
		a := require.Value(authn.Resolve(t.Context(), NewKeychain(), repo))(t)
		cfg := require.Value(authn.Authorization(t.Context(), a))(t)
		return cfg.Username
	}
	check := func(ref, want string) {
		t.Helper()
		assert.Equalf(t, want, user(ref), "user for %s is", ref)
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
	repo := require.Value(name.NewRepository("c.example/x"))(t)
	if _, err := authn.Resolve(t.Context(), NewKeychain(), repo); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a broken file: %v; want an error without its content", err)
	}
}
