package redact

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestText(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]string{
		"read http://joe:pw@host:80/x":                  "read http://host:80/x",
		`get "https://token@host/x?sig=1&y=2": refused`: `get "https://host/x?...": refused`,
		`parse "http://joe:p/w@host/x": invalid port`:   `parse "http://host/x": invalid port`,
		`"http://joe:p\"w@host/"`:                       `"http://host/"`,
		"http://joe:p%zz@host/":                         "http://host/",
		`"joe:pw@host:5000/a:1" is no image`:            `"...@host:5000/a:1" is no image`,
		"ssh://joe:pw@host/x":                           "ssh://joe@host/x",
		"ssh joe@host":                                  "ssh joe@host",
		"docker-container://n?context=c":                "docker-container://n?context=c",
		"pkg:deb/debian/kmod@30?arch=amd64":             "pkg:deb/debian/kmod@30?arch=amd64",
		"h.example:5000/driver:580-debian12@" + digest:  "h.example:5000/driver:580-debian12@" + digest,
		"docker://h.example/driver:580@" + digest:       "docker://h.example/driver:580@" + digest,
		"https://h.example/@scope/pkg and Joe <j@x.y>":  "https://h.example/@scope/pkg and Joe <j@x.y>",
		"HOST=http://joe:pw@m.example/x":                "HOST=http://m.example/x",
		"127.0.0.1:9=joe:pw@m.example":                  "...@m.example",
		"file:///tmp/x y":                               "file:///tmp/x y",
		"":                                              "",
	} {
		assert.Equal(t, want, Text(text))
		assert.Equal(t, want, Text(want))
	}
}

// TestNoSecret: no password, user or token of a URL is left in any text, whatever characters it has, and host and path are.
func TestNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "Xyzzy7"
	noise := rapid.StringOf(rapid.SampledFrom([]rune(`ab%:@/\?#&="'+~é`)))
	rapid.Check(t, func(rt *rapid.T) {
		password := noise.Draw(rt, "before") + secret + noise.Draw(rt, "after")
		scheme := rapid.SampledFrom([]string{"http", "https", "tcp", "oci", "docker", "file"}).Draw(rt, "scheme")
		text := scheme + "://" + url.UserPassword("joe", password).String() + "@host.example/path?token=" + url.QueryEscape(password)
		for _, printed := range []string{text, fmt.Sprintf("%q", text), "get " + text + ": refused", (&url.Error{Op: "Get", URL: text, Err: url.InvalidHostError("x")}).Error()} {
			shown := Text(printed)
			assert.Equalf(rt, false, strings.Contains(shown, secret) || strings.Contains(shown, "joe"), "%s: %s", printed, shown)
			assert.Containsf(rt, shown, scheme+"://host.example/path", "%s", printed)
		}
	})
}

// FuzzText: a password without blanks and quotes is hidden in whatever text, also where it is not written as a URL wants it.
func FuzzText(f *testing.F) {
	f.Add("get ", "p/w", ": refused")
	f.Fuzz(func(t *testing.T, before, password, after string) {
		const secret = "Xyzzy7"
		if strings.ContainsAny(password, " \t\r\n\v\f\"\\?#") || strings.ContainsAny(before+after, "@\"") || !utf8.ValidString(password) {
			return
		}
		shown := Text(before + " http://joe:" + password + secret + "@host.example/ " + after)
		if strings.Contains(shown, secret) && !strings.Contains(before+after, secret) {
			t.Errorf("%q", shown)
		}
	})
}
