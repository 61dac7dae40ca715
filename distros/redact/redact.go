// Package redact takes secrets out of what people and logs see: user and password of URLs and of
// names of images, and queries, which hold tokens and signatures. It changes text only; the URL
// that is asked stays whole.
package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Words end at a blank or a quote; a quote in one may be escaped, as %q does it.
var (
	withScheme = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://(?:\\.|[^\s"\\])*`)
	withLogin  = regexp.MustCompile(`([^\s"/@=:]+):(?:\\.|[^\s"\\/])(?:\\.|[^\s"\\])*`)
)

// digest follows the name of an image.
var digest = regexp.MustCompile(`@sha(?:256|512):`)

// noUser are words before a colon that name no user: kinds of images on this machine, and package
// URLs.
var noUser = []string{"oci", "oci-archive", "docker-archive", "pkg"}

// container are schemes of BuildKit's addresses whose queries name a context or a namespace.
var container = []string{"docker-container", "podman-container", "nerdctl-container", "kube-pod"}

// Text returns a text without the secrets of URLs and of names of images in it.
func Text(text string) string {
	text = withScheme.ReplaceAllStringFunc(text, URL)
	return withLogin.ReplaceAllStringFunc(text, hideLogin)
}

// hideLogin returns a word without user and password, and then without a query.
func hideLogin(word string) string {
	name := beforeDigest(word)
	at := strings.LastIndexByte(name, '@')
	user, _, _ := strings.Cut(name, ":")
	if at < 0 || slices.Contains(noUser, user) {
		return word
	}
	place, _, hasQuery := strings.Cut(word[at:], "?")
	if hasQuery {
		place += "?..."
	}
	return "..." + place
}

// beforeDigest returns the part of an image's name that has no digest.
func beforeDigest(name string) string {
	at := digest.FindStringIndex(name)
	if at == nil {
		return name
	}
	return name[:at[0]]
}

// URL returns a URL without user, password and query. The user of ssh stays, because it says which
// account is meant. A text that is none loses what stands before its last @.
func URL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Text(text)
	}
	path, _, hasQuery := strings.Cut(rest, "?")
	if hasQuery && !slices.Contains(container, scheme) {
		rest = path + "?..."
	}
	end := userinfoEnd(text, rest)
	user, _, _ := strings.Cut(strings.TrimSuffix(rest[:end], "@"), ":")
	rest = rest[end:]
	if scheme == "ssh" && user != "" {
		rest = user + "@" + rest
	}
	return scheme + "://" + rest
}

// userinfoEnd returns the length of user and password, with their @, in what follows the scheme of
// a URL. A password may have characters that a URL does not allow there, such as a slash: if there
// can be a password, it is all to the last @.
func userinfoEnd(text, rest string) int {
	rest = beforeDigest(rest)
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	_, err := url.Parse(text)
	if err != nil || strings.Contains(authority, ":") {
		authority = rest
	}
	return strings.LastIndexByte(authority, '@') + 1
}
