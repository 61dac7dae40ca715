package fetch

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/redact"
)

// Address turns what a person gives, a URL or the name of a file, into a URL that a Client reads. A
// file must be there. what names the value in messages.
func Address(what, value string) (string, error) {
	if strings.Contains(value, "://") {
		if err := CheckURL(value); err != nil {
			return "", fmt.Errorf("%s %w", what, err)
		}
		return value, nil
	}
	abs, err := filepath.Abs(value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	f, err := bounded.Open(abs)
	if err != nil {
		return "", fmt.Errorf("%s: %w: give a file or a URL", what, err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String(), f.Close()
}

// CheckURL says why a Client cannot read a URL, without asking anything. Its text hides passwords.
func CheckURL(text string) error {
	u, err := parseURL(text)
	if err != nil {
		return err
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s: it has a blank or an unprintable character; write a blank as %%20", shown(u))
	}
	return nil
}

// shown is a URL for people, without its secrets.
func shown(u *url.URL) string { return redact.URL(u.String()) }

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // its text may repeat a password
		return nil, fmt.Errorf("%q is no URL: %w", redact.Text(text), unwrapURLError(err))
	}
	fault := ""
	switch {
	case u.Scheme == "":
		fault = "it is no URL: it begins with http:// or https://"
	case u.Scheme == "file" && (u.Host != "" && u.Host != "localhost" || u.Path == ""):
		fault = "want file:///path"
	case u.Scheme == "file":
	case u.Scheme != "http" && u.Scheme != "https":
		fault = "scheme " + u.Scheme + " is not known: use http, https or a file name"
	case u.Hostname() == "":
		fault = "it names no host"
	}
	if fault != "" {
		return nil, fmt.Errorf("%s: %s", shown(u), fault)
	}
	return u, nil
}
