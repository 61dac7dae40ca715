package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stage makes the root ready for mounting. With Storage it copies the image to
// Storage/roots/<version>-<identity>, under a temporary name until the copy is complete; files that
// the storage can share with the image's layers take neither time nor space. It reuses an existing
// root after a check of its libraries, and removes incomplete roots of killed predecessors. When
// the storage is full, it removes every root that nobody mounts and that has none of the needed
// paths, our own that is damaged too, and tries once more. After any failure, nothing is left. It mounts nothing, so it may run
// while another driver serves. Sync has to be called at some time after it. Without Storage nothing
// is made, and dir is "": the image itself is served.
func (r *Root) Stage(ctx context.Context, needed []string) (dir string, err error) {
	dir, err = r.folder(r.Version, r.ID)
	if err != nil {
		return "", fmt.Errorf("stage the driver root: %w", err)
	}
	if r.Storage == "" {
		r.Log.Info(
			"no storage of the host is mounted: the root of this container is served, and ends with it",
		)
		return "", nil
	}
	err = r.stageIn(ctx, dir, needed)
	if err != nil {
		return "", fmt.Errorf("stage the driver root in %s: %w", filepath.Dir(dir), err)
	}
	return dir, nil
}

func (r *Root) stageIn(ctx context.Context, dir string, needed []string) error {
	roots := filepath.Dir(dir)
	if err := os.MkdirAll(roots, 0o755); err != nil {
		return err
	}
	// there they only take space
	if err := r.removeLeftovers(roots); err != nil && !errors.Is(err, unix.EROFS) {
		return err
	}
	if r.reuse(dir) {
		return nil
	}
	started := time.Now()
	sum, err := r.copy(ctx, dir)
	if isFull(err) {
		r.Log.Warn("the storage is full: driver roots that nobody mounts are removed",
			"path", roots, "error", err)
		pruned := errors.Join(r.prune(ctx, 0, needed), r.Remove(dir))
		if pruned != nil {
			return errors.Join(err, pruned)
		}
		sum, err = r.copy(ctx, dir)
	}
	if isFull(err) {
		return fmt.Errorf(
			"%w: make room (a driver needs up to 2 GB) or do not mount a folder there, then the image itself is served",
			err,
		)
	}
	if err != nil {
		return readOnly(r.Storage, err)
	}
	r.Log.Info(
		"driver root staged",
		"path",
		dir,
		"files",
		sum.files,
		"bytes",
		sum.bytes,
		"shared",
		sum.shared,
		"duration",
		time.Since(started).Round(10*time.Millisecond),
	)
	return nil
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// readOnly adds to an error what to do about storage that cannot be written.
func readOnly(storage string, err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	return fmt.Errorf(
		"%w: what is in %s does not serve this image, and it cannot be written: mount it writable, or bake it for this image",
		err,
		storage,
	)
}

// reuse says whether dir is a complete root.
func (r *Root) reuse(dir string) bool {
	damage := Check(dir, r.Version, r.ID)
	if damage != nil && !errors.Is(damage, fs.ErrNotExist) {
		r.Log.Warn("the staged driver root is damaged, staging it again",
			"path", dir, "error", damage)
	}
	return damage == nil
}

// copy copies the image to dir. A damaged root that is there gets a name that removeLeftovers finds,
// but only when the copy is complete.
func (r *Root) copy(ctx context.Context, dir string) (sum copied, err error) {
	src, covered, err := r.view()
	if err != nil {
		return sum, err
	}
	defer src.Close()
	tmp, err := os.MkdirTemp(filepath.Dir(dir), tmpPrefix)
	if err != nil {
		return sum, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.removeTree(tmp))
		}
	}()
	dst, image, reason, err := r.openTarget(tmp)
	if err != nil {
		return sum, err
	}
	defer dst.Close()
	defer image.close()
	if reason != nil {
		r.Log.Info("the driver root is a whole copy of the image", "reason", reason)
	}
	c := &copier{image: image, covered: covered, skip: identity(r.Storage), lenient: r.NoMounts}
	sum, err = c.tree(ctx, src, dst)
	if err != nil {
		return sum, err
	}
	if err := r.finish(dst); err != nil {
		return sum, err
	}
	err = os.Rename(dir, tmp+"-damaged")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sum, err
	}
	return sum, os.Rename(tmp, dir)
}

// finish adds what a root has in addition to the image: what Mount needs, and the marker.
func (r *Root) finish(dst *os.File) error {
	root, err := rootAt(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	err = r.prepare(root)
	if err != nil {
		return err
	}
	m := marker{Schema: markerSchema, Version: r.Version, ID: r.ID}
	m.Boot, err = BootID()
	if err != nil {
		return err
	}
	m.Checked, err = toCheck(root, r.Version)
	if err != nil {
		return err
	}
	return m.write(root)
}

// tmpSuffix ends the name of a file until it takes its place.
const tmpSuffix = ".tmp"

// inOneStep makes a file under a temporary name, and then gives it its own: a reader finds the file
// of before or the new one. What has the temporary name is removed and not written to, because it
// may be a link.
func inOneStep(root *os.Root, name string, create func(tmp string) error) error {
	tmp := name + tmpSuffix
	err := root.RemoveAll(tmp)
	if err != nil {
		return err
	}
	err = create(tmp)
	if err != nil {
		return errors.Join(err, root.RemoveAll(tmp))
	}
	return root.Rename(tmp, name)
}

// writeFile writes a new file, because one that is there may be shared with the image.
func writeFile(root *os.Root, name, text string) error {
	return inOneStep(root, name, func(tmp string) error {
		return root.WriteFile(tmp, []byte(text), 0o644)
	})
}

// isSameFile says whether both paths lead to the same existing file or folder.
func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// syncFS waits until everything in a file system is on the disk: one wait instead of ten thousand
// for single files. The call cannot be interrupted; when ctx ends, it continues in its goroutine.
func syncFS(ctx context.Context, f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := unix.Syncfs(fd)
		_ = unix.Close(fd) // nothing was written through it
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// removeLeftovers removes what killed starts left, and damaged roots, unless they are mounted.
func (r *Root) removeLeftovers(roots string) error {
	entries, err := os.ReadDir(roots)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tmpPrefix) {
			continue
		}
		if err := r.Remove(filepath.Join(roots, e.Name())); err != nil {
			return fmt.Errorf("remove what an earlier start left: %w", err)
		}
	}
	return nil
}
