package headers

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Limits for all packages of one kernel together. Ubuntu's largest are 150 MB in 30000 files.
const (
	maxBytes   = 2 << 30
	maxEntries = 400_000
)

// unpack writes the packages' headers into a folder that gets its name when it is whole and on the
// disk.
func (f *fetcher) unpack(
	ctx context.Context,
	from manager,
	p plan,
	files []string,
) (installed []string, err error) {
	begin := time.Now()
	temp := f.Into + ".new"
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	err = errors.Join(
		os.RemoveAll(temp),
		os.MkdirAll(filepath.Join(temp, "usr/lib"), 0o755),
		os.Symlink("usr/lib", filepath.Join(temp, "lib")),
	)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(temp)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // opened for its name
	t := &tree{root: root, buf: make([]byte, 128<<10)}
	for i, pkg := range p {
		if err := t.unpack(ctx, from, files[i], pkg); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", label(pkg), err)
		}
		installed = append(installed, label(pkg))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	err = publish(root, f.Into)
	if err != nil {
		return nil, fmt.Errorf("write to disk: %w", err)
	}
	f.Log.Info(
		"headers unpacked",
		"kernel", f.Release,
		"path", f.Into,
		"files", t.entries,
		"bytes", t.bytes,
		"duration", time.Since(begin).Round(10*time.Millisecond),
	)
	return installed, nil
}

// publish gives a folder its name when its files are on the disk.
func publish(root *os.Root, name string) error {
	top, err := root.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()                //nolint:errcheck // opened for its number
	err = unix.Syncfs(int(top.Fd())) // instead of an fsync for each of 16000 files
	if err != nil {
		return err
	}
	err = os.RemoveAll(name)
	if err != nil {
		return err
	}
	return os.Rename(root.Name(), name)
}

// tree is the folder that gets the packages. Links in it lead nowhere else while it is written.
type tree struct {
	root    *os.Root
	buf     []byte // one for all files
	entries int
	bytes   int64
}

// unpack writes one package.
func (t *tree) unpack(ctx context.Context, from manager, file string, p distros.Package) error {
	return fetch.Pinned(ctx, file, pinned(p), func(in io.Reader) error {
		return from.members(in, p, t.member)
	})
}

// member writes one file, folder or link. What is not below the folders of headers and their tools
// is left out, such as documentation. A file that an earlier package has is replaced.
func (t *tree) member(h *tar.Header, r io.Reader) error {
	t.entries++
	t.bytes += h.Size
	if t.entries > maxEntries || t.bytes > maxBytes {
		return fmt.Errorf("%w: more than %d files or %d bytes", ErrPackage, maxEntries, maxBytes)
	}
	name := path.Clean(h.Name)
	top, _, _ := strings.Cut(strings.TrimPrefix(name, "usr/"), "/")
	if top != "src" && top != "lib" {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		return t.root.MkdirAll(name, 0o755)
	}
	if err := t.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return t.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return t.root.Link(path.Clean(h.Linkname), name)
	}
	return t.file(name, h, r)
}

// file writes a file with its time, because make compares times. Others than root read it, whatever
// the umask is.
func (t *tree) file(name string, h *tar.Header, r io.Reader) error {
	mode := 0o644 | h.FileInfo().Mode()&0o111
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	// not f: its ReadFrom allocates a buffer of its own
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, t.buf)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return t.root.Chtimes(name, h.ModTime, h.ModTime)
}
