package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// sourceURL turns the value of --source into a URL: it is one, or the name of a file.
func sourceURL(s string) (string, error) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil {
			return "", fmt.Errorf("--source: %w", err)
		}
		switch u.Scheme {
		case "http", "https", "file":
			return s, nil
		}
		return "", fmt.Errorf("--source %s: scheme %s is not known: use http, https or a file name", u.Redacted(), u.Scheme)
	}
	abs, err := filepath.Abs(s)
	if err != nil {
		return "", fmt.Errorf("--source: %w", err)
	}
	if _, err := os.Stat(abs); err != nil {
		return "", fmt.Errorf("--source: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String(), nil
}
