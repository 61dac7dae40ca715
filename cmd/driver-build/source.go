package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// addressOf turns the value of a flag that takes URL or FILE into a URL.
func addressOf(flag, s string) (string, error) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		switch u.Scheme {
		case "http", "https", "file":
			return s, nil
		}
		return "", fmt.Errorf("%s %s: scheme %s is not known: use http, https or a file name", flag, u.Redacted(), u.Scheme)
	}
	abs, err := filepath.Abs(s)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	if _, err := os.Stat(abs); err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return (&url.URL{Scheme: "file", Path: abs}).String(), nil
}
