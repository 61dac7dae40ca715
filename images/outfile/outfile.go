// Package outfile writes the files that a user named: archives, locks, pages, matrices. One rule
// holds for all of them:
//
//   - A regular file, or a name that is free, gets its content whole or not at all: temporary file, fsync,
//     rename. The permission bits of a file that is replaced stay.
//   - A link to a regular file is followed: the file that it leads to is replaced, and the link stays. A link
//     that leads nowhere is refused.
//   - A named pipe or a character device is written to.
//   - Everything else is refused: folders, block devices, sockets.
//
// The package knows no formats.
package outfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxPrefix bounds the part of a name that its temporary file repeats: a name may have 255 bytes.
const maxPrefix = 200

// Check says why Write cannot write to path, before the work on the content begins. In a folder it
// creates a temporary file and removes it: permission bits say little about root, /proc or a
// read-only file system.
func Check(path string) error {
	file, stream, err := find(path)
	switch {
	case err != nil:
		return err
	case stream:
		if err := unix.Access(path, unix.W_OK); err != nil {
			return fmt.Errorf("%s cannot be written to: %w", path, err)
		}
		return nil
	}
	return CheckFolder(filepath.Dir(file))
}

// CheckReplace says why Replace cannot write to path, as Check does for Write.
func CheckReplace(path string) error {
	if _, err := replaceable(path); err != nil {
		return err
	}
	return CheckFolder(filepath.Dir(path))
}

// CheckFolder says why no file can be created in a folder.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist: create it first", dir)
	case err != nil:
		return fmt.Errorf("the folder %s cannot be used: %w", dir, reason(err))
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	}
	const prefix = ".driver-build.tmp-"
	Sweep(dir, prefix)
	f, err := createLocked(dir, prefix)
	if err != nil {
		return fmt.Errorf("no file can be created in %s: %w", dir, reason(err))
	}
	return errors.Join(os.Remove(f.Name()), f.Close())
}

// Write lets fill write the content of path, by the rule of the package. After an error a file is
// as it was.
func Write(ctx context.Context, path string, fill func(io.Writer) error) error {
	file, stream, err := find(path)
	switch {
	case err != nil:
		return err
	case stream:
		return writeStream(ctx, path, fill)
	}
	return Replace(file, fill)
}

// Replace writes a regular file, or one that does not exist yet, whole or not at all. It follows no
// link and refuses everything else. The temporary file is locked while it is written, so that Sweep
// recognises the file of a killed process by its free lock.
func Replace(path string, fill func(io.Writer) error) (err error) {
	Sweep(filepath.Dir(path), tmpPrefix(path))
	return ReplaceSwept(path, fill)
}

func tmpPrefix(path string) string {
	base := filepath.Base(path)
	return "." + base[:min(len(base), maxPrefix)] + ".tmp-"
}

// ReplaceSwept is Replace for a folder that the caller has swept: Sweep lists the whole folder.
func ReplaceSwept(path string, fill func(io.Writer) error) (err error) {
	mode, err := replaceable(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := createLocked(dir, tmpPrefix(path))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// while it is locked, so that no other process removes it
			err = errors.Join(err, os.Remove(f.Name()))
			// err says more, and may be that of Close
			_ = f.Close()
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	// Again, because the content may have taken minutes. What appears between this and the rename
	// is lost.
	if _, err := replaceable(path); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// replaceable returns the mode of a file that may be replaced, or created.
func replaceable(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o644, nil
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, refuse(path, info.Mode())
	}
	return info.Mode().Perm(), nil
}

// find returns the file that a path means, and whether it is one to write to instead of one to
// replace.
func find(path string) (file string, stream bool, err error) {
	if strings.HasSuffix(path, "/") {
		return "", false, fmt.Errorf("%s is the name of a folder: give the name of a file", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, missing := os.Lstat(path)
		if missing != nil {
			return path, false, nil //nolint:nilerr // it is to be made
		}
		return "", false, fmt.Errorf(
			"%s is a link that leads nowhere: remove it, or create what it leads to", path,
		)
	case errors.Is(err, unix.ENOTDIR):
		return "", false, fmt.Errorf("%s is no folder", filepath.Dir(path))
	case err != nil:
		return "", false, fmt.Errorf("%s cannot be used: %w", path, reason(err))
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return path, true, nil
	case !info.Mode().IsRegular():
		return "", false, refuse(path, info.Mode())
	}
	file, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", false, err
	}
	if isMount(file) {
		return "", false, fmt.Errorf(
			"%s is mounted by itself, so that no other file can take its place: mount its folder instead",
			path,
		)
	}
	return file, false, nil
}

func refuse(path string, mode fs.FileMode) error {
	return fmt.Errorf(
		"%s is %s, which is not replaced: give the name of a file", path, bounded.Kind(mode),
	)
}

// reason is the error below a path error: the messages above name the path already.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
