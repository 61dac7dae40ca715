// Package inventory has the list of an image's files, and its configuration: what driver-build
// records in each image, and what Verify compares an image with. The list is one file in the image,
// in the format of mtree(5), which bsdtar and gomtree read; a label of the image has its digest.
//
// It does not judge: it writes, reads and compares lists.
package inventory

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// File is one path of an image: what has to stay as it is for the image to work as it did. Times
// are left out, because nothing depends on them; so are owner and mode of links, which have no
// effect.
type File struct {
	Path     string // clean and relative
	Kind     rootfs.Kind
	Mode     fs.FileMode // permission bits and setuid, setgid, sticky
	UID, GID int
	Size     int64
	SHA256   string            // hex digits, of a file's content
	Target   string            // of a link; of a device or FIFO, what it is
	Xattrs   map[string]string // extended attributes, in the kernel's format
}

// Of lists the files of layers, the bottom one first, sorted by path, without the list itself.
func Of(
	ctx context.Context,
	cache layer.Cache,
	layers []v1.Layer,
	step *progress.Step,
) (files []File, err error) {
	tree, err := cache.Outline(ctx, layers, step)
	if err != nil {
		return nil, err
	}
	for _, e := range tree.All() {
		if e.Path == recipe.FileList {
			continue
		}
		f, err := FileOf(e)
		if err != nil {
			return nil, fmt.Errorf("list the files of the image: %s: %w", e.Path, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// FileOf is the File of an entry.
func FileOf(e *rootfs.Entry) (f File, err error) {
	f = File{Path: e.Path, Kind: e.Kind, Target: e.Target, Xattrs: e.Xattrs}
	if e.Kind == rootfs.File {
		f.Size = e.Size
		f.SHA256, err = e.SHA256()
	}
	if e.Kind != rootfs.Link {
		f.Mode = e.Mode
		f.UID = e.UID
		f.GID = e.GID
	}
	return f, err
}

// Replace returns a list with other files below a folder.
func Replace(files []File, dir string, with []File) []File {
	kept := slices.DeleteFunc(
		slices.Clone(files),
		func(f File) bool { return recipe.InFolder(f.Path, dir) },
	)
	for _, f := range with {
		if recipe.InFolder(f.Path, dir) {
			kept = append(kept, f)
		}
	}
	slices.SortFunc(kept, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return kept
}

// Differences says in words in what a file is not as the list has it; none: it is.
func (f File) Differences(is File) (all []string) {
	if f.Kind != is.Kind {
		return []string{fmt.Sprintf("is %s, not %s", kinds[is.Kind], kinds[f.Kind])}
	}
	check := func(differs bool, format string, args ...any) {
		if differs {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	check(
		f.Target != is.Target && f.Kind == rootfs.Link,
		"leads to %s, not to %s",
		is.Target,
		f.Target,
	)
	check(f.Target != is.Target && f.Kind != rootfs.Link, "is %s, not %s", is.Target, f.Target)
	check(f.Size != is.Size, "has %d bytes, not %d", is.Size, f.Size)
	check(f.Size == is.Size && f.SHA256 != is.SHA256, "has another content")
	check(
		f.Mode != is.Mode,
		"has mode %04o, not %04o",
		rootfs.UnixMode(is.Mode),
		rootfs.UnixMode(f.Mode),
	)
	check(
		f.UID != is.UID || f.GID != is.GID,
		"belongs to %d:%d, not to %d:%d",
		is.UID,
		is.GID,
		f.UID,
		f.GID,
	)
	check(
		!maps.Equal(f.Xattrs, is.Xattrs),
		"has other extended attributes: %.200q, not %.200q",
		is.Xattrs,
		f.Xattrs,
	)
	return all
}

var kinds = map[rootfs.Kind]string{
	rootfs.File:    "a file",
	rootfs.Dir:     "a folder",
	rootfs.Link:    "a link",
	rootfs.Special: "a device or FIFO",
}

// header is the first line; mtree knows a file by it.
const header = "#mtree v2.0\n"

// configured begins the second line, a comment to mtree: the configuration as JSON.
const configured = "#config "

// List is what is recorded of an image.
type List struct {
	// Config is the image's configuration without what the layer with the list makes: the digests
	// of layers, and recipe.LabelFiles. nil: an older version made the list.
	Config *v1.ConfigFile
	Files  []File // sorted by path
}

// Encode returns the list as bytes: equal for equal lists.
func (l List) Encode() ([]byte, error) {
	b := make([]byte, 0, len(header)+160*len(l.Files))
	b = append(b, header...)
	if l.Config != nil {
		config, err := json.Marshal(l.Config)
		if err != nil {
			return nil, fmt.Errorf("record the configuration: %w", err)
		}
		b = append(append(append(b, configured...), config...), '\n')
	}
	for _, f := range l.Files {
		b = append(f.appendLine(b), '\n')
	}
	return b, nil
}

func (f File) appendLine(b []byte) []byte {
	b = appendEscaped(append(b, "./"...), f.Path)
	switch f.Kind {
	case rootfs.Link:
		b = appendEscaped(append(b, " type=link link="...), f.Target)
	case rootfs.Special:
		b = fmt.Appendf(b, " type=%s", f.Target)
	case rootfs.File:
		b = fmt.Appendf(b, " type=file size=%d sha256digest=%s", f.Size, f.SHA256)
	default:
		b = append(b, " type=dir"...)
	}
	if f.Kind != rootfs.Link {
		b = fmt.Appendf(b, " mode=%04o uid=%d gid=%d", rootfs.UnixMode(f.Mode), f.UID, f.GID)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Xattrs)) {
		escaped := bytes.ReplaceAll(appendEscaped(nil, name), []byte("="), []byte(`\075`))
		b = base64.StdEncoding.AppendEncode(
			fmt.Appendf(b, " xattr.%s=", escaped),
			[]byte(f.Xattrs[name]),
		)
	}
	return b
}

// appendEscaped writes the bytes that separate words, and those that are not printable, as vis(3)
// does: \040.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`\#*?[`, c) >= 0 {
			b = fmt.Appendf(b, `\%03o`, c)
		} else {
			b = append(b, c)
		}
	}
	return b
}
