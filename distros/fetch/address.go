package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Address turns what a person gives, a URL or the name of a file, into a URL that a Client reads. A file must
// be there. what names the value in messages.
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
	u, err := url.Parse(text)
	if err != nil { // its text may repeat a password
		return fmt.Errorf("%q is no URL: %w", hidden(text), errors.Unwrap(err))
	}
	fault := ""
	switch {
	case strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) >= 0:
		fault = "it has a blank or an unprintable character; write a blank as %20"
	case u.Scheme == "":
		fault = "it is no URL: it begins with http:// or https://"
	case u.Scheme == "file" && u.Path != "":
	case u.Scheme != "http" && u.Scheme != "https":
		fault = "scheme " + u.Scheme + " is not known: use http, https or a file name"
	case u.Hostname() == "":
		fault = "it names no host"
	}
	if fault != "" {
		return fmt.Errorf("%s: %s", u.Redacted(), fault)
	}
	return nil
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("download: not a URL: %w", unwrapURLError(err)) // the text of url.Parse has the password
	}
	switch {
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && u.Path != "":
		return u, nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return u, nil
	}
	return nil, fmt.Errorf("download %s: want http://host/path, https://host/path or file:///path", redactURL(u))
}

// hidden returns a text that is no URL, without what stands where a URL has user and password.
func hidden(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "..." + text[i:]
	}
	return text
}
