//go:build linux

package chroot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/readahead"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
)

// Names and limits of the layer format: https://github.com/opencontainers/image-spec/blob/main/layer.md
const (
	whiteout   = ".wh."
	opaque     = ".wh..wh..opq"
	maxEntries = 2 << 20
	maxBytes   = 64 << 30
)

// mountPoints are the folders of a root that the runner mounts something on.
var mountPoints = []string{"proc", "dev", "tmp"}

// unpack writes a step's layers into an empty root and creates the mount points and the output folder. It
// returns the path of that folder, relative to the root and without links.
func unpack(ctx context.Context, root *os.Root, s runner.Step) (output string, err error) {
	t := &tree{root: root}
	defer func() { err = errors.Join(err, t.close()) }()
	for i, l := range s.Layers {
		if err := t.layer(ctx, l); err != nil {
			return "", fmt.Errorf("layer %d of %d: %w", i+1, len(s.Layers), err)
		}
	}
	for _, d := range append([]string{"sys"}, mountPoints...) {
		if err := t.folder(d, 0o755); err != nil {
			return "", fmt.Errorf("make /%s: %w", d, err)
		}
	}
	dir, err := t.resolve(path.Dir(s.Output))
	if err != nil {
		return "", fmt.Errorf("find the output folder: %w", err)
	}
	output = path.Join(dir, path.Base(s.Output))
	if runner.Covered("/" + output) {
		return "", fmt.Errorf("the output folder %s leads to /%s, where something is mounted", s.Output, output)
	}
	if err := t.remove(output); err != nil {
		return "", fmt.Errorf("empty the output folder: %w", err)
	}
	if err := t.folder(output, 0o755); err != nil {
		return "", fmt.Errorf("make the output folder: %w", err)
	}
	return output, nil
}

// layer applies one layer and checks that its content matches its digests, before any of it runs.
func (t *tree) layer(ctx context.Context, l v1.Layer) (err error) {
	want, err := l.DiffID()
	if err != nil {
		return err
	}
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sum := sha256.New()
	t.currentLayer = map[string]bool{}
	if err := t.archive(ctx, readahead.New(io.TeeReader(r, sum))); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("its content is sha256:%s, not %s as its image says: it is damaged, remove it from the cache or pull it again", got, want)
	}
	return nil
}

// archive reads the layer to the end of its content, not only to the end of the archive.
func (t *tree) archive(ctx context.Context, a *readahead.Reader) error {
	defer a.Stop()
	if err := t.entries(ctx, a); err != nil {
		return err
	}
	n, err := io.CopyN(io.Discard, a, maxBytes)
	if err == nil {
		return fmt.Errorf("more than %d bytes after the end of the archive", n)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (t *tree) entries(ctx context.Context, r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		t.count, t.bytes = t.count+1, t.bytes+max(hdr.Size, 0)
		if t.count > maxEntries || t.bytes > maxBytes {
			return fmt.Errorf("the root is too large: more than %d files or %d bytes", maxEntries, int64(maxBytes))
		}
		if err := t.entry(ctx, hdr, tr); err != nil {
			return fmt.Errorf("unpack %q: %w", hdr.Name, err)
		}
	}
}

// entry writes one member of a layer. It ignores owners, extended attributes, and times of folders, because
// no compiler reads them. It skips devices, FIFOs and sockets.
func (t *tree) entry(ctx context.Context, hdr *tar.Header, r io.Reader) error {
	name, err := rootfs.Clean(strings.TrimLeft(hdr.Name, "/"))
	if strings.Trim(hdr.Name, "./") == "" && hdr.Typeflag == tar.TypeDir {
		return nil // the root itself
	}
	if err != nil {
		return err
	}
	dir, err := t.resolve(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch {
	case base == opaque:
		return t.removeLower(dir, true)
	case strings.HasPrefix(base, whiteout):
		hidden, err := rootfs.Clean(strings.TrimPrefix(base, whiteout))
		if err != nil || hidden == "." {
			return fmt.Errorf("%w: a whiteout of %q", rootfs.ErrUnsafePath, base)
		}
		return t.removeLower(path.Join(dir, hidden), false)
	}
	at := path.Join(dir, base)
	t.markCurrent(at)
	perm := fs.FileMode(hdr.Mode) & 0o777 //nolint:gosec // masked: setuid bits must not exist on this machine
	switch hdr.Typeflag {
	case tar.TypeDir:
		return t.folder(at, perm)
	case tar.TypeReg:
		return t.file(ctx, at, perm, hdr, r)
	case tar.TypeSymlink:
		return t.link(at, hdr.Linkname)
	case tar.TypeLink:
		return t.hardLink(at, hdr.Linkname)
	case tar.TypeGNUSparse:
		return errSparse
	default:
		return nil
	}
}

// errSparse refuses sparse files, against which the layer format advises: a few bytes can stand for terabytes
// of zeros.
var errSparse = errors.New("sparse files have no place in a layer")
