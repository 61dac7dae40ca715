package imagename

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestTag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"535.261.03-debian12": true, "_x": true, strings.Repeat("x", 128): true,
		"": false, "-x": false, ".x": false, "a b": false, "a:b": false, "a/b": false, "a@b": false, "a\n": false, strings.Repeat("x", 129): false,
	} {
		if err := CheckTag(text); (err == nil) != want || want != (CheckImage("h.example/a:"+text) == nil) {
			t.Errorf("%q: %v, %v", text, err, CheckImage("h.example/a:"+text))
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	checks := map[string]func(string) error{"image": CheckImage, "repository": CheckRepository, "registry": CheckRegistry}
	for _, c := range []struct{ kind, text, want string }{
		{"image", "debian:12", ""}, {"image", "debian", ""}, {"image", "localhost:5000/a/b:T@" + digest, ""}, {"image", "[::1]:5000/a", ""},
		{"image", "registry.example.com/a@" + digest, ""}, {"image", "REGISTRY.example.com/a:TAG", ""},
		{"image", "", "empty"}, {"image", "/srv/base.tar", "oci-archive:FILE"}, {"image", "./base", "path of this machine"},
		{"image", "../base", "path of this machine"}, {"image", "~/base", "path of this machine"}, {"image", "https://h.example/a:1", "give h.example/a:1"},
		{"image", "docker://h.example/a", "no scheme"}, {"image", "https:/h/a", "no host"}, {"image", "h:0/a", "no host"}, {"image", "h:65536/a", "no host"},
		{"image", "h:port/a", "no host"}, {"image", ":5000/a", "no host"}, {"image", "Debian:12", "did you mean debian:12?"}, {"image", "a b", "blank"}, {"image", "TEAM/a", "did you mean team/a?"}, {"image", "a/-b", "no path in a registry"},
		{"image", "a\x00b", "unprintable"}, {"image", "a@sha256:12", "64 hex digits"}, {"image", "a@md5:" + strings.Repeat("0", 32), "64 hex digits"},
		{"image", "a:b:c", "is no image reference"}, {"image", strings.Repeat("x", 5000), "5000 bytes"}, {"image", "a:" + strings.Repeat("t", 129), "is no image reference"},
		{"repository", "team/driver", ""}, {"repository", "registry.example.com:5000/a/b", ""}, {"repository", "localhost:5000/a", ""},
		{"repository", "", "empty"}, {"repository", "h.example/a:1", "give h.example/a"}, {"repository", "h.example:5000/a:1", "give h.example:5000/a"},
		{"repository", "h.example/a@" + digest, "give h.example/a"}, {"repository", "h.example/A", "did you mean h.example/a?"},
		{"repository", "https://h.example/a", "give h.example/a"}, {"repository", "http://h.example/a", "--insecure-registry"},
		{"repository", "oci:dist", "tag"}, {"repository", "/srv/a", "path of this machine"}, {"repository", "h.example/", "no repository"},
		{"repository", "h.example//a", "no repository"}, {"repository", "h.example/a b", "blank"},
		{"registry", "docker.io", ""}, {"registry", "h.example:5000", ""}, {"registry", "[::1]:5000", ""}, {"registry", "", "empty"},
		{"registry", "https://h.example", "without scheme: give h.example"}, {"registry", "h.example/a", "more than a host"}, {"registry", "https:", "no host"},
	} {
		err := checks[c.kind](c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.100q: %v, want %q", c.kind, c.text, err, c.want)
		}
	}
}

// FuzzRepository: what is accepted is one name, and the tags of images can follow it.
func FuzzRepository(f *testing.F) {
	for _, s := range []string{"team/driver", "h.example:5000/a", "[::1]:5000/a", "https://h/a", "h/a:1", "h/A", "a@" + digest, "/a", "https:/h", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckRepository(text) != nil {
			return
		}
		r, err := name.NewRepository(text)
		require.NoErrorf(t, err, "%q", text)
		tag, err := name.NewTag(text + ":535.261.03-debian12")
		if err != nil || tag.RepositoryStr() != r.RepositoryStr() || tag.RegistryStr() != r.RegistryStr() || CheckImage(text+":1@"+digest) != nil {
			t.Errorf("%q: %v, %v", text, tag, err)
		}
		for _, wrong := range []string{text + ":1", text + "@" + digest, "https://" + text, "/" + text} {
			assert.Errorf(t, CheckRepository(wrong), "%q is accepted", wrong)
		}
		if host := r.RegistryStr(); CheckRegistry(host) != nil || strings.HasSuffix(host, ":") {
			t.Errorf("%q: host %q", text, host)
		}
	})
}

// FuzzImage: what is accepted is a reference.
func FuzzImage(f *testing.F) {
	for _, s := range []string{"debian:12", "h.example/a:T@" + digest, "oci:dist", "a:b/c", "x@y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckImage(text) != nil {
			return
		}
		if _, err := name.ParseReference(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
