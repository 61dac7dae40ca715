package driverroot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stage makes the root ready to be mounted. With Storage it copies the image to Storage/roots/<version>-<identity>, under a
// temporary name until all of it is on the disk; a root that is there is used again after a look at its libraries. What a killed
// predecessor left half done is removed. Any failure, a full disk too (errors.Is unix.ENOSPC), leaves nothing behind. Nothing is
// mounted, so it may run while another driver serves. Without Storage there is nothing to do.
func (r Root) Stage(ctx context.Context) (Staged, error) {
	if !versionFormat.MatchString(r.Version) {
		return Staged{}, fmt.Errorf("stage the driver root: driver version %q: want numbers and dots, as 535.261.03", r.Version)
	}
	if r.Storage == "" {
		return Staged{Root: r, Dir: r.Image}, nil
	}
	name, err := r.name()
	if err != nil {
		return Staged{}, fmt.Errorf("stage the driver root: %w", err)
	}
	roots := filepath.Join(r.Storage, rootsDir)
	s := Staged{Root: r, Dir: filepath.Join(roots, name)}
	if err := os.MkdirAll(roots, 0o755); err != nil {
		return Staged{}, fmt.Errorf("stage the driver root: %w", err)
	}
	if err := r.removeLeftovers(roots); err != nil {
		return Staged{}, fmt.Errorf("stage the driver root: %w", err)
	}
	if s.Reused, err = r.reuse(s.Dir); err != nil || s.Reused {
		return s, err
	}
	started := time.Now()
	m, err := r.stage(ctx, roots, s.Dir)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return Staged{}, fmt.Errorf("stage the driver root in %s: %w: make room (a driver needs up to 2 GB) or do not mount a folder there, then the image itself is served", roots, err)
	}
	if err != nil {
		return Staged{}, fmt.Errorf("stage the driver root in %s: %w", roots, err)
	}
	r.say("driver root staged in %s: %d files, %d MB, %v", s.Dir, m.Files, m.Bytes>>20, time.Since(started).Round(10*time.Millisecond))
	return s, nil
}

// reuse says whether dir is a complete root. A damaged one is moved aside, where Prune finds it.
func (r Root) reuse(dir string) (bool, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		defer root.Close()
		err = intact(root, r.Version, r.ID)
	}
	if err == nil {
		return true, nil
	}
	bad, tmpErr := os.MkdirTemp(filepath.Dir(dir), badPrefix)
	if tmpErr != nil {
		return false, fmt.Errorf("stage the driver root: move the damaged %s aside: %w", dir, tmpErr)
	}
	r.say("the staged driver root %s is damaged (%v): staging it again", dir, err)
	if err := os.Rename(dir, filepath.Join(bad, filepath.Base(dir))); err != nil {
		return false, fmt.Errorf("stage the driver root: move the damaged %s aside: %w", dir, err)
	}
	return false, nil
}

func (r Root) stage(ctx context.Context, roots, dir string) (m marker, err error) {
	src, err := bareView(r.Image)
	if err != nil {
		return m, err
	}
	defer src.Close()
	tmp, err := os.MkdirTemp(roots, tmpPrefix)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	dst, err := os.Open(tmp)
	if err != nil {
		return m, err
	}
	defer dst.Close()
	m = marker{Schema: markerSchema, Version: r.Version, ID: r.ID}
	if m.Files, m.Bytes, err = copyTree(ctx, src, dst, identity(r.Storage)); err != nil {
		return m, err
	}
	if err := r.finish(dst, &m); err != nil {
		return m, err
	}
	if err := syncFS(ctx, dst); err != nil {
		return m, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return m, err
	}
	return m, syncDir(roots)
}

// finish adds what a root has more than the image: the way to the firmware, and the marker.
func (r Root) finish(dst *os.File, m *marker) error {
	root, err := rootAt(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := serveFirmware(root, r.Version); err != nil {
		return err
	}
	if m.Checked, err = toCheck(root, r.Version); err != nil {
		return err
	}
	m.Staged = time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(markerPath), 0o755); err != nil {
		return err
	}
	return root.WriteFile(markerPath, append(text, '\n'), 0o644)
}

func identity(dir string) inode {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

func identityOf(f *os.File) inode {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return inode{}
	}
	return inode{st.Dev, st.Ino}
}

// syncFS waits until all of the copy is on the disk: one wait for the file system instead of ten thousand for files. The kernel
// does not let itself be interrupted in it, so a caller who gives up leaves it to end by itself.
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
		if err != nil {
			return fmt.Errorf("write everything to the disk: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write everything to the disk: %w", context.Cause(ctx))
	}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// removeLeftovers removes what starts that were killed left, which nobody can be using: it never had its name.
func (r Root) removeLeftovers(roots string) error {
	entries, err := os.ReadDir(roots)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tmpPrefix) {
			continue
		}
		if err := r.removeTree(filepath.Join(roots, e.Name())); err != nil {
			return fmt.Errorf("remove what an interrupted start left: %w", err)
		}
	}
	return nil
}
