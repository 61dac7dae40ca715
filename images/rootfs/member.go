package rootfs

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"strings"
)

// Names of the layer format: https://github.com/opencontainers/image-spec/blob/main/layer.md
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	metadata = ".wh..wh."
)

// Records of members that are ours, and those of extended attributes.
const (
	paxElided = "DRIVERBUILD.elided"
	paxXattr  = "SCHILY.xattr."
)

// Everything is what an opaque marker hides: the folder's content.
const Everything = "."

// ParseMarker returns what a member of a layer hides in its folder by its base name: a name,
// Everything, or "" if it is no marker. A marker hides what the layers below have and never what
// its own layer adds, in any order.
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

// errSparse refuses sparse files, against which the layer format advises: a few bytes can stand for
// terabytes of zeros.
var errSparse = fmt.Errorf("%w: sparse files have no place in a layer", ErrUnsafePath)

// CheckMember refuses a member of a layer whose names lead out of it, or that is sparse.
func CheckMember(hdr *tar.Header) error {
	names := []string{hdr.Name}
	if hdr.Typeflag == tar.TypeLink {
		names = append(names, hdr.Linkname)
	}
	for _, name := range names {
		name = strings.TrimLeft(name, "/")
		if name == "" {
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

// specials are the kinds of member that are Special, with their words.
var specials = map[byte]string{tar.TypeChar: "char", tar.TypeBlock: "block", tar.TypeFifo: "fifo"}

// special says what a member is: "char device 1,3".
func special(hdr *tar.Header) string {
	if hdr.Typeflag == tar.TypeFifo {
		return specials[hdr.Typeflag]
	}
	return fmt.Sprintf("%s device %d,%d", specials[hdr.Typeflag], hdr.Devmajor, hdr.Devminor)
}

// records are extended attributes as a header has them.
func records(xattrs map[string]string) map[string]string {
	all := make(map[string]string, len(xattrs))
	for name, value := range xattrs {
		all[paxXattr+name] = value
	}
	return all
}

// xattrs are the extended attributes of a member.
func xattrs(hdr *tar.Header) (all map[string]string) {
	for name, value := range hdr.PAXRecords {
		if name, ok := strings.CutPrefix(name, paxXattr); ok {
			if all == nil {
				all = map[string]string{}
			}
			all[strings.Clone(name)] = strings.Clone(value)
		}
	}
	return all
}

// UnixMode returns a mode as a tar header has it.
func UnixMode(m fs.FileMode) int64 {
	// fails for other types only
	hdr, _ := tar.FileInfoHeader(info{&Entry{Mode: m &^ fs.ModeType}}, "")
	return hdr.Mode
}

// FileMode returns the mode of a tar header.
func FileMode(
	bits int64,
) fs.FileMode {
	return (&tar.Header{Mode: bits & 0o7777}).FileInfo().Mode()
}
