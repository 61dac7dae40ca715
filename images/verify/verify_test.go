package verify

import (
	"strings"
	"testing"
	"unicode"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

func TestSummarizeBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, digest, want string }{
		{"docker.io/library/debian:12-slim", "sha256:1", "docker.io/library/debian:12-slim@sha256:1"},
		{"", "sha256:1", "sha256:1"},
		{"", "", ""},
	} {
		img := require.Value(mutate.Config(empty.Image, v1.Config{Labels: map[string]string{recipe.OCIPrefix + "base.name": c.name, recipe.OCIPrefix + "base.digest": c.digest}}))(t)
		assert.Equalf(t, c.want, require.Value(Summarize(img))(t).Base, "base %q %q", c.name, c.digest)
	}
}

// TestOneLine: whatever an image calls its files, a finding is one line, and its path in JSON is the file's name.
func TestOneLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringOf(rapid.SampledFrom([]rune("ab/\n\r\x1b\u2028\u202e"))).Draw(rt, "name")
		s := subject{rule: "files"}
		s.fail(name, "leads to %s", name)
		found := s.findings[0]
		assert.Equalf(rt, 1, len(strings.Split(found.String(), "\n")), "lines of %q", found.String())
		assert.Equal(rt, -1, strings.IndexFunc(found.String(), func(r rune) bool { return !unicode.IsPrint(r) }))
		assert.Equal(rt, name, found.Path)
	})
}

// TestConfigDifferences: a field is named by its path, and no other key can pass for it.
func TestConfigDifferences(t *testing.T) {
	t.Parallel()
	const built = `{"os":"linux","config":{"Env":["A=1","B="],"Labels":{"a.b":"c"}},"rootfs":{"type":"layers","diff_ids":null}}`
	for is, want := range map[string]string{
		built: "",
		`{"config":{"Env":["B=","A=1"],"User":"","Labels":{"a.b":"c"}},"os":"linux","rootfs":{"type":"layers","diff_ids":["x"]}}`: "",
		strings.Replace(built, `"Env"`, `"Cmd":[],"Volumes":{},"Env"`, 1):                                                         "",
		strings.Replace(built, `"A=1"`, `"A=2"`, 1):                                                                               `config.Env.A is "2", not "1"`,
		strings.Replace(built, `"A=1"`, `"A=1","A=1"`, 1):                                                                         `config.Env is ["A=1","A=1","B="], not {"A":"1","B":""}`,
		strings.Replace(built, `"Env"`, `"User":"nobody","Env"`, 1):                                                               `config.User is "nobody", not set`,
		strings.Replace(built, `"c"`, `"d"`, 1):                                                                                   `config.Labels.a.b is "d", not "c"`,
		strings.Replace(built, `"config"`, `"config.User":"x","config"`, 1):                                                       `config.User is "x", not set`,
		strings.Replace(built, `"layers"`, `"x"`, 1):                                                                              `rootfs.type is "x", not "layers"`,
		strings.Replace(built, `"os":"linux",`, "", 1):                                                                            `os is not set, not "linux"`,
		strings.Replace(built, `"config"`, `"config":{"User":"x"},"config"`, 1):                                                   "malformed",
	} {
		got, err := ConfigDifferences([]byte(built), []byte(is))
		text := strings.Join(got, "; ")
		if err != nil {
			text = err.Error()
		}
		assert.Equalf(t, true, text == want || want != "" && strings.Contains(text, want), "%s: %s", is, text)
	}
}

// TestIndexWithoutImages: an index that names no image for a platform does not pass.
func TestIndexWithoutImages(t *testing.T) {
	t.Parallel()
	attestation := v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}
	for _, entries := range [][]v1.Descriptor{nil, {attestation}} {
		findings := require.Value(Examiner{}.VerifyIndex(t.Context(), "x", entries, nil, Options{}))(t)
		assert.ErrorIs(t, Unfit(findings), ErrUnfit)
	}
}

// FuzzConfigDifferences: whatever the configuration is, a difference is found or the fields are the same.
func FuzzConfigDifferences(f *testing.F) {
	f.Add([]byte(`{"config":{"Env":["A=1"]}}`), []byte(`{"config":{"Env":["A=1","A=2"]}}`))
	f.Add([]byte(`{"config":null}`), []byte(`{"rootfs":{"diff_ids":[]}}`))
	f.Fuzz(func(t *testing.T, want, is []byte) {
		there, err := ConfigDifferences(want, is)
		if err != nil {
			return
		}
		back, err := ConfigDifferences(is, want)
		assert.NoError(t, err)
		assert.Equal(t, len(there) == 0, len(back) == 0)
	})
}
