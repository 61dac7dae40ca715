// Package site has no code, only a test: it builds the site of the documents (make docs) and opens every page
// in Chromium, at the widths of a telephone and of a desk, light and dark.
package site
