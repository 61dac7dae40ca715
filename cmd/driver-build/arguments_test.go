package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// needless are commands that work without arguments and flags.
var needless = []string{"cache", "cache prune", "list", "lock", "check", "plan", "drivers", "matrix", "doctor", "bundle", "version", "fleet", "gpus"}

// takesAny are commands that take any number of arguments.
var takesAny = map[string]bool{"sign-image": true, "push": true, "bundle create": true, "bundle verify": true, "bundle import": true, "drivers": true, "gpus": true, "bundle list": true}

// TestArguments: each command refuses no arguments where it needs some, too many, misspelt ones and unknown
// flags: exit code 2, one line that says what to do, nothing on stdout, no file.
func TestArguments(t *testing.T) {
	t.Parallel()
	root := newRootCmd(&session.App{})
	root.InitDefaultCompletionCmd()
	dir := t.TempDir()
	refused := func(args ...string) {
		t.Helper()
		r := call(t.Context(), t, map[string]string{"DRIVER_BUILD_CACHE": filepath.Join(dir, "cache")}, append(args, "--offline")...)
		text := strings.TrimPrefix(r.Stderr, "driver-build: ")
		if r.Code != 2 || r.Stdout != "" || strings.Count(r.Stderr, "\n") != 1 || text == r.Stderr || len(text) < 20 {
			t.Errorf("driver-build %q: exit code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		words := strings.Fields(c.CommandPath())[1:]
		name := strings.Join(words, " ")
		completion := len(words) > 0 && words[0] == "completion"
		if len(words) > 0 && words[0] == "help" {
			return
		}
		with := func(more ...string) []string { return append(append([]string{}, words...), more...) }
		if !completion && !slices.Contains(needless, name) {
			refused(with()...)
		}
		if !takesAny[name] {
			refused(with("one", "two", "three")...)
		}
		refused(with("--no-such-flag")...)
		refused(with("--jobs")...)
		if c.HasAvailableSubCommands() {
			refused(with("no-such-command")...)
		}
	}
	walk(root)
	assert.Samef(t, []string{}, names(t, dir), "files")
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	all := []string{}
	for _, e := range require.Value(os.ReadDir(dir))(t) {
		all = append(all, e.Name())
	}
	return all
}

// TestContradictions: flags that exclude or need each other.
func TestContradictions(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	build := "--os debian12 --driver " + newDriver + " "
	for args, parts := range map[string][]string{
		build + "--with-toolchain": {"--with-toolchain", "give --kernel"},
		build + "--one-image":      {"--one-image", "give --kernel"},
		build + "--with-sources":   {"--with-sources", "give --kernel"},
		build + "--kmm":            {"--kmm", "give --kernel"},
		build + "--image-key a --image-signer b --repository h.example/a": {"--image-key and --image-signer"},
		"lock --lock none":                                          {"--lock none is for builds"},
		"lock some-target":                                          {"targets follow --update"},
		"sign-modules oci:x --export a --import b":                  {"give one of"},
		"sign-modules oci:x --export a --module-key k":              {"give one of"},
		"verify oci:x --kernel 6.1":                                 {"--kernel is for --deep"},
		"verify oci:x --source y":                                   {"for --rebuild"},
		"plan --all --repository h.example/a --module-cert x":       {"give --kernel"},
		"bundle verify x --key a --allow-unsigned":                  {"--key", "--allow-unsigned"},
		"bundle import x --to h.example/a --key a --allow-unsigned": {"--key", "--allow-unsigned"},
		"sign-image h.example/a:1 --type x:y":                       {"--image-key"},
		"drivers no-branch":                                         {"no-branch", "R535"},
		"completion tcsh":                                           {"tcsh"},
		"login h.example -u me":                                     {"--password-stdin"},
	} {
		r := u.Run(t, strings.Fields(args)...).Want(t, 2, parts...)
		if strings.Count(r.Stderr, "\n") != 1 || r.Stdout != "" {
			t.Errorf("%s: stdout %q, stderr %q", args, r.Stdout, r.Stderr)
		}
	}
	assert.Samef(t, []string{"matrix.yaml"}, names(t, u.Dir), "files of the user")
	assert.Samef(t, []string{}, names(t, u.Cache), "files in the cache")
}

// TestOtherLock: a lock of a later driver-build is refused and not replaced; one of an earlier is replaced on request.
func TestOtherLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	text := `{"schema": 3, "newField": {}}`
	require.NoError(t, os.WriteFile(u.Path("matrix.lock"), []byte(text), 0o600))
	for _, args := range []string{"lock", "lock --update", "check", "--os debian12 --driver " + newDriver} {
		u.tool(t, args).Want(t, 2, "matrix.lock: a lock of a later driver-build: its schema is 3, this program knows 2")
	}
	assert.Equal(t, text, string(require.Value(os.ReadFile(u.Path("matrix.lock")))(t)))
	require.NoError(t, os.WriteFile(u.Path("matrix.lock"), []byte("# What the images\nschema: 1\ntargets: {}\n"), 0o600))
	for _, args := range []string{"lock", "--os debian12 --driver " + newDriver} {
		u.tool(t, args).Want(t, 2, "an earlier driver-build wrote it", "driver-build lock --update")
	}
	u.tool(t, "lock --update").Want(t, 0)
	u.tool(t, "lock --check").Want(t, 0)
}
