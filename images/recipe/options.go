package recipe

import (
	"crypto/x509"
	"fmt"
	"strings"
)

// Options are the choices that are not in the matrix. The zero value takes everything from the row.
type Options struct {
	Base        string      // another base: a reference, oci:DIR, oci-archive:FILE or docker-archive:FILE
	Source      string      // where the .run archive is: a URL; its checksum is still the row's
	Mirror      string      // instead of the addresses in the base's apt configuration; see apt.WithMirror
	Profile     Profile     // "": full
	Compression Compression // "": gzip
	Epoch       int64       // SOURCE_DATE_EPOCH

	Kernels   []string // releases to compile modules for
	Together  bool     // all kernels in one image, <driver>-<os>; without it there must be one kernel, and the tag names it
	Toolchain bool     // with Kernels: compiler and sources are in the image all the same, for other kernels
	Sources   bool     // with Kernels: the sources of the modules are in the image
	Flavours  []string // with Kernels: of those modules; empty: the one that the driver's own installer would take
	Modules   []string // with Kernels: names of the modules; empty: all that the sources offer
	// KernelFrom are images that have the headers and the compiler of the kernels (see images/headersimage); empty:
	// packages have them.
	KernelFrom []string
	KMM        bool              // with Kernels: the modules are laid out for Kernel Module Management too; of one flavour
	Signer     *x509.Certificate // with Kernels: whose key signs the modules; nil: unsigned
}

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
