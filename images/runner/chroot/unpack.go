//go:build linux

package chroot

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/continuity/fs"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
)

// Bounds of a root.
const (
	maxEntries = 2 << 20
	maxBytes   = 64 << 30
)

// mountPoints are the folders of a root that the runner mounts something on.
var mountPoints = []string{"proc", "dev", "tmp"}

// unpack writes a step's layers into an empty folder and creates the mount points and the output
// folder. It returns the path of that folder, relative to the root and without links.
func unpack(ctx context.Context, root string, s runner.Step) (output string, err error) {
	u := &unpacker{root: root}
	for i, l := range s.Layers {
		if err := u.layer(ctx, l); err != nil {
			return "", fmt.Errorf("layer %d of %d: %w", i+1, len(s.Layers), err)
		}
	}
	for _, d := range append([]string{"sys"}, mountPoints...) {
		if err := emptyFolder(filepath.Join(root, d)); err != nil {
			return "", fmt.Errorf("make /%s: %w", d, err)
		}
	}
	dir, err := fs.RootPath(root, path.Dir(s.Output))
	if err != nil {
		return "", fmt.Errorf("find the output folder: %w", err)
	}
	output = strings.TrimPrefix(filepath.Join(dir, path.Base(s.Output)), root+"/")
	if runner.Covered("/" + output) {
		return "", fmt.Errorf(
			"the output folder %s leads to /%s, where something is mounted",
			s.Output,
			output,
		)
	}
	err = errors.Join(os.MkdirAll(dir, 0o755), emptyFolder(filepath.Join(root, output)))
	if err != nil {
		return "", fmt.Errorf("make the output folder: %w", err)
	}
	return output, nil
}

// emptyFolder replaces what is at a path, also a link, by an empty folder.
func emptyFolder(at string) error {
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	return os.Chmod(at, 0o755) // independent of the umask
}

// unpacker applies layers to a root.
type unpacker struct {
	root string // absolute, without links
	// paths of the current layer and their parents: its markers do not touch them
	own   map[string]bool
	count int
	bytes int64
}

// layer applies one layer and checks that its content matches its digests, before any of it runs.
func (u *unpacker) layer(ctx context.Context, l v1.Layer) (err error) {
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
	in := bufio.NewReaderSize(io.TeeReader(r, sum), 256<<10)
	u.own = map[string]bool{}
	_, err = archive.Apply(
		ctx,
		u.root,
		in,
		archive.WithNoSameOwner(),
		archive.WithFilter(u.accept),
		archive.WithConvertWhiteout(u.mark),
	)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	// The content has a digest to its end, which can come after the end of the archive.
	n, err := io.Copy(io.Discard, io.LimitReader(in, maxBytes))
	if err != nil {
		return err
	}
	if n == maxBytes {
		return fmt.Errorf("more than %d bytes after the end of the archive", n)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf(
			"its content is sha256:%s, not %s as its image says: it is damaged, remove it from the cache or pull it again",
			got,
			want,
		)
	}
	return nil
}

// accept says whether a member is unpacked, and with what. It ignores owners, extended attributes
// and setuid bits, because no compiler reads them, and skips devices, FIFOs and sockets. The owner,
// who runs the step, always gets access: the command has no capability to override modes.
func (u *unpacker) accept(hdr *tar.Header) (bool, error) {
	u.count = u.count + 1
	u.bytes = u.bytes + max(hdr.Size, 0)
	if u.count > maxEntries || u.bytes > maxBytes {
		return false, fmt.Errorf(
			"the root is too large: more than %d files or %d bytes",
			maxEntries,
			int64(maxBytes),
		)
	}
	if err := rootfs.CheckMember(hdr); err != nil {
		return false, err
	}
	access := int64(0o600)
	if hdr.Typeflag == tar.TypeDir {
		access = 0o700
	}
	hdr.Mode = hdr.Mode&0o777 | access
	hdr.PAXRecords = nil
	return slices.Contains(
		[]byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink},
		hdr.Typeflag,
	), nil
}

// mark records what the layer has, or follows a marker, which hides what lower layers have. at is
// the path of the member without links in its folders.
func (u *unpacker) mark(_ *tar.Header, at string) (isMember bool, err error) {
	switch hidden, err := rootfs.ParseMarker(filepath.Base(at)); {
	case err != nil:
		return false, err
	case hidden == rootfs.Everything:
		return false, u.hideBelow(filepath.Dir(at))
	case hidden != "":
		return false, u.hide(filepath.Join(filepath.Dir(at), hidden))
	}
	for ; at != u.root && !u.own[at]; at = filepath.Dir(at) {
		u.own[at] = true
	}
	return true, nil
}

// hide removes what lower layers have at a path. Nothing there is no error, as for the kernel's
// overlays.
func (u *unpacker) hide(at string) error {
	if !u.own[at] {
		return os.RemoveAll(at)
	}
	info, err := os.Lstat(at)
	if err != nil || !info.IsDir() {
		return nil //nolint:nilerr // nothing is there
	}
	return u.hideBelow(at)
}

// hideBelow removes what lower layers have in a folder.
func (u *unpacker) hideBelow(dir string) error {
	list, err := os.ReadDir(dir)
	for _, d := range list {
		err = errors.Join(err, u.hide(filepath.Join(dir, d.Name())))
	}
	return err
}
