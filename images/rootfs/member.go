package rootfs

import (
	"archive/tar"
	"fmt"
	"strings"
)

// Names of the layer format: https://github.com/opencontainers/image-spec/blob/main/layer.md
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	metadata = ".wh..wh."
)

// Everything is what an opaque marker hides: the folder's content.
const Everything = "."

// ParseMarker returns what a member of a layer hides in its folder by its base name: a name, Everything, or "" if
// it is no marker. A marker hides what the layers below have and never what its own layer adds, in any order.
func ParseMarker(base string) (hidden string, err error) {
	hidden, marker := strings.CutPrefix(base, whiteout)
	switch {
	case !marker:
		return "", nil
	case base == opaque:
		return Everything, nil
	case hidden == "" || hidden == "." || hidden == "..":
		return "", fmt.Errorf("%w: a whiteout of %q", ErrUnsafePath, hidden)
	}
	return hidden, nil
}

// errSparse refuses sparse files, against which the layer format advises: a few bytes can stand for terabytes
// of zeros.
var errSparse = fmt.Errorf("%w: sparse files have no place in a layer", ErrUnsafePath)

// CheckMember refuses a member of a layer whose names lead out of it, or that is sparse.
func CheckMember(hdr *tar.Header) error {
	names := []string{hdr.Name}
	if hdr.Typeflag == tar.TypeLink {
		names = append(names, hdr.Linkname)
	}
	for _, name := range names {
		if name = strings.TrimLeft(name, "/"); name == "" {
			continue // the root itself
		}
		if _, err := Clean(name); err != nil {
			return err
		}
	}
	sparse := hdr.Typeflag == tar.TypeGNUSparse
	for name := range hdr.PAXRecords {
		sparse = sparse || strings.HasPrefix(name, "GNU.sparse.")
	}
	if sparse {
		return errSparse
	}
	return nil
}
