package runfile

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
)

// Bounds of a payload: bytes when it is unpacked, members with folders, bytes and folders of a
// name. 610.57.04 has 1.8 GB in 1,189 members, real names have 90 bytes and 6 folders. Package dpkg
// bounds the decompressors.
const (
	maxContent = 4 << 30
	maxMembers = 20_000
	maxName    = 1024
	maxDepth   = 32
)

// Member is a file of an archive, or a symbolic link where these are allowed.
type Member struct {
	Name string      // relative, clean and slash-separated
	Mode fs.FileMode // permission
	Size int64       // bytes
	Link string      // target of a symbolic link; "" for a file
}

// Unpack reads a compressed tar and calls add for each file, as [Reader.Extract] does, and for each
// symbolic link if links are allowed. xz opens an .xz stream; nil: in Go.
func Unpack(
	r io.Reader,
	xz compression.OpenXZ,
	links bool,
	add func(Member, io.Reader) error,
) error {
	in := bufio.NewReaderSize(r, 128<<10)
	kind, err := compression.Detect(in)
	if err != nil {
		return err
	}
	// The first bytes decide, not the driver's version: xz changed to zstd with 530.30.02, but
	// repackaged variants differ.
	if !slices.Contains([]string{compression.Gzip, compression.XZ, compression.Zstd}, kind) {
		return fmt.Errorf("it is compressed with neither gzip, xz nor zstd: %w", ErrPayload)
	}
	plain, err := compression.Stream{XZ: xz, Limit: maxContent, Format: ErrPayload}.Open(in, kind)
	if err != nil {
		return classify("decompress", err)
	}
	return errors.Join(classify("payload", untar(plain, links, add)), plain.Close())
}

// untar reads the tar and calls add for each file and link.
func untar(r io.Reader, links bool, add func(Member, io.Reader) error) error {
	t := tar.NewReader(r)
	seen := names{}
	for n := 0; ; n++ {
		hdr, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return fmt.Errorf("the tar is empty: %w", ErrPayload)
		case errors.Is(err, io.EOF):
			// Padding follows, which must be well-formed compressed data too.
			_, err = io.Copy(io.Discard, r)
			return err
		case err != nil:
			return classify("read the next member", err)
		case n == maxMembers:
			return fmt.Errorf("more than %d members: %w", maxMembers, ErrTooLarge)
		case hdr.Typeflag == tar.TypeXGlobalHeader: // git archive writes the commit there
			continue
		}
		isDir := hdr.Typeflag == tar.TypeDir
		m, err := member(hdr, links)
		if err != nil {
			return fmt.Errorf("member %q %w", clip(hdr.Name), err)
		}
		if err := seen.add(m.Name, isDir); err != nil {
			return fmt.Errorf("member %q %w", clip(hdr.Name), err)
		}
		if isDir {
			continue
		}
		if err := add(m, t); err != nil {
			return classify("member "+m.Name, err)
		}
	}
}

// member checks one header by itself.
func member(hdr *tar.Header, links bool) (m Member, err error) {
	m = Member{Mode: fs.FileMode(hdr.Mode) & fs.ModePerm, Size: hdr.Size}
	m.Name, err = cleanName(hdr.Name)
	if err != nil {
		return m, fmt.Errorf("has a name that %w: %w", err, ErrUnsafe)
	}
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return m, fmt.Errorf("is a sparse file: %w", ErrUnsafe)
		}
	}
	switch {
	case hdr.Size < 0 || hdr.Size > maxContent:
		return m, fmt.Errorf("claims %d bytes: %w", hdr.Size, ErrTooLarge)
	case hdr.Typeflag == tar.TypeSymlink && links && hdr.Linkname != "" && len(hdr.Linkname) <= maxName:
		m.Link = strings.Clone(hdr.Linkname)
		m.Size = 0
	case hdr.Typeflag != tar.TypeReg && hdr.Typeflag != tar.TypeDir:
		return m, fmt.Errorf(
			"is neither a file nor a folder (type %q), which NVIDIA's archives never have: %w",
			hdr.Typeflag,
			ErrUnsafe,
		)
	}
	return m, nil
}

// names has the clean names seen so far; the value is true for a folder.
type names map[string]bool

func (n names) add(name string, dir bool) error {
	if was, twice := n[name]; twice && !(dir && was) || name == "." && !dir {
		return fmt.Errorf("is there a second time: %w", ErrUnsafe)
	}
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if isDir, seen := n[parent]; seen && !isDir {
			return fmt.Errorf("is below %q, which is a file: %w", parent, ErrUnsafe)
		}
		n[parent] = true
	}
	n[name] = dir
	return nil
}

// cleanName cleans a member's name ("./32/libcuda.so.1" becomes "32/libcuda.so.1", the top itself
// "."), and refuses names that lead out of the tree or that no NVIDIA archive has.
func cleanName(name string) (string, error) {
	switch {
	case name == "" || len(name) > maxName:
		return "", fmt.Errorf("has %d bytes", len(name))
	case strings.HasPrefix(name, "/"):
		return "", errors.New("is absolute")
	case strings.Count(name, "/") > maxDepth:
		return "", fmt.Errorf("is deeper than %d directories", maxDepth)
	case !printable(name) || strings.ContainsAny(name, "\t\\"):
		return "", errors.New("holds a control character or a backslash")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", errors.New("climbs out of a directory")
	}
	// A copy: a name out of a PAX record shares the memory of the whole record, which may have a
	// megabyte.
	return path.Clean(strings.Clone(name)), nil
}

// classify makes damage of the compressed data or the tar an ErrPayload. Other errors, such as
// those of a disk, stay what they are.
func classify(what string, err error) error {
	for _, damage := range []error{tar.ErrHeader, tar.ErrFieldTooLong, tar.ErrInsecurePath, io.ErrUnexpectedEOF} {
		if errors.Is(err, damage) && !errors.Is(err, ErrPayload) {
			return fmt.Errorf("%s: %w: %w", what, err, ErrPayload)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}
