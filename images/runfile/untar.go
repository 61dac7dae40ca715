package runfile

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// untar reads the tar and calls add for each regular file. NVIDIA's tars have only regular files and
// directories (every link is a line of the manifest), so untar refuses anything else.
func untar(r io.Reader, l Limits, add AddFunc) error {
	seen := newNames(l.Members)
	t := tar.NewReader(r)
	for {
		hdr, err := t.Next()
		if err == io.EOF { //nolint:errorlint // the end of a tar is the bare io.EOF
			if seen.members == 0 {
				return fmt.Errorf("the tar is empty: %w", ErrPayload)
			}
			return nil
		}
		if err != nil {
			return tarErr("read the next member", err)
		}
		name, err := seen.accept(hdr, l)
		if err != nil {
			return err
		}
		if hdr.Typeflag != tar.TypeReg {
			continue
		}
		content := &tarContent{r: t}
		if err := add(name, fs.FileMode(hdr.Mode)&fs.ModePerm, hdr.Size, content); err != nil {
			// When reading the content failed, that error counts, whatever the callback returned for it.
			if content.err != nil {
				return tarErr("read member "+name, content.err)
			}
			return &addError{name: name, err: err}
		}
	}
}

// tarErr adds to an error what was attempted, and ErrPayload unless the error has a kind of its own.
func tarErr(what string, err error) error {
	switch {
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrPayload):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, tar.ErrInsecurePath):
		return fmt.Errorf("%s: %w: %w", what, err, ErrPayload)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// tarContent remembers a read error of the tar during the callback.
type tarContent struct {
	r   io.Reader
	err error
}

func (c *tarContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // as above
		c.err = err
	}
	return n, err
}

// names has the clean names seen so far; the value is true for a directory.
type names struct {
	dirs    map[string]bool
	members int
}

func newNames(most int) *names { return &names{dirs: make(map[string]bool, min(most, 2048))} }

// accept checks one header and returns the member's clean name.
func (n *names) accept(hdr *tar.Header, l Limits) (string, error) {
	if n.members++; n.members > l.Members {
		return "", fmt.Errorf("more than %d members: %w", l.Members, ErrTooLarge)
	}
	if hdr.Typeflag != tar.TypeReg && hdr.Typeflag != tar.TypeDir {
		return "", fmt.Errorf("member %q is a %s, which NVIDIA's archives never have: %w", clip(hdr.Name), typeName(hdr.Typeflag), ErrUnsafe)
	}
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "", fmt.Errorf("member %q is a sparse file: %w", clip(hdr.Name), ErrUnsafe)
		}
	}
	if hdr.Size < 0 || hdr.Size > l.Content {
		return "", fmt.Errorf("member %q claims %d bytes: %w", clip(hdr.Name), hdr.Size, ErrTooLarge)
	}
	name, err := cleanName(hdr.Name)
	if err != nil {
		return "", fmt.Errorf("member %q: %w: %w", clip(hdr.Name), err, ErrUnsafe)
	}
	dir := hdr.Typeflag == tar.TypeDir
	if was, twice := n.dirs[name]; twice && !(dir && was) || name == "." && !dir {
		return "", fmt.Errorf("member %q a second time: %w", name, ErrUnsafe)
	}
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if isDir, seen := n.dirs[parent]; seen && !isDir {
			return "", fmt.Errorf("member %q below %q, which is a file: %w", name, parent, ErrUnsafe)
		}
		n.dirs[parent] = true
	}
	n.dirs[name] = dir
	return name, nil
}

// cleanName cleans a member's name ("./32/libcuda.so.1" becomes "32/libcuda.so.1", the top itself "."), and
// refuses names that lead out of the tree or that no NVIDIA archive has.
func cleanName(name string) (string, error) {
	switch {
	case name == "" || len(name) > maxName:
		return "", fmt.Errorf("its name has %d bytes", len(name))
	case strings.HasPrefix(name, "/"):
		return "", errors.New("its name is absolute")
	case strings.Count(name, "/") > maxDepth:
		return "", fmt.Errorf("its name is deeper than %d directories", maxDepth)
	}
	for _, c := range []byte(name) {
		if c < ' ' || c == 0x7f || c == '\\' {
			return "", fmt.Errorf("its name holds the byte %#02x", c)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("its name climbs out of a directory")
		}
	}
	// A copy: a name out of a PAX record shares the memory of the whole record, which may have a megabyte.
	return path.Clean(strings.Clone(name)), nil
}

func typeName(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "hard link"
	case tar.TypeSymlink:
		return "symbolic link"
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return "device or pipe"
	case tar.TypeGNUSparse:
		return "sparse file"
	}
	return fmt.Sprintf("member of type %q", flag)
}
