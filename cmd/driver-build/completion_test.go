package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

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
	matrix := u.Path("matrix.yaml")
	require.NoError(t, os.WriteFile(matrix, []byte(u.Matrix()), 0o600))
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
	if !slices.Contains(words, "535.261.03") || slices.Contains(words, "418.87.01") {
		t.Errorf("drivers of debian12: %q", words)
	}
}
