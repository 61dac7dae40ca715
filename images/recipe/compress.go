package recipe

import (
	"fmt"
	"strings"
)

// Compression of the layers that we build. gzip is the default: container runtimes older than containerd 1.5
// and Docker 23 cannot read zstd.
type Compression string

// The compressions there are.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// ParseCompression reads the value of --compression.
func ParseCompression(s string) (Compression, error) {
	switch c := Compression(strings.ToLower(s)); c {
	case Gzip, Zstd:
		return c, nil
	default:
		return "", fmt.Errorf("compression %q is not known: use gzip or zstd", s)
	}
}
