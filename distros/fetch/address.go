package fetch

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Address turns what a person gives, a URL or the name of a file, into a URL that a Client reads. A file must
// be there. what names the value in messages.
func Address(what, value string) (string, error) {
	if strings.Contains(value, "://") {
		u, err := url.Parse(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		switch u.Scheme {
		case "http", "https", "file":
			return value, nil
		}
		return "", fmt.Errorf("%s %s: scheme %s is not known: use http, https or a file name", what, u.Redacted(), u.Scheme)
	}
	abs, err := filepath.Abs(value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if _, err := os.Stat(abs); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String(), nil
}
