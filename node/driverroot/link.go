package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Where a container may not mount (it lacks CAP_SYS_ADMIN), a staged root is served by a symbolic link at
// Target to the root's folder in Storage. That folder must have the same path in the container and on the
// host, because the kernel follows the link to find firmware, and the host's runtime to find libraries.
// Unlike a mounted root, a linked one has no procfs, no sockets of the daemons and no /dev of its own;
// therefore Root.HostDev is required. A link is created and replaced by one rename; a consumer that has the
// older root mounted keeps it complete.

// linkedName is the name of a staged root's folder, by which our links are recognised.
var linkedName = lazyregexp.New(`^[0-9]{1,6}(\.[0-9]{1,6}){1,3}-[0-9a-f]{12}$`)

// maxStray is the limit for empty folders that are removed from the path of the link.
const maxStray = 100

var (
	// ErrNotOurs says that something is at Target that this package did not create.
	ErrNotOurs = errors.New("it is not of a driver container")
	// ErrNotLinkable says that a root cannot be served by a link: it is not a copy on the host's storage, or
	// device nodes are not the host's.
	ErrNotLinkable = errors.New("only a root on the host's storage, beside the host's own /dev, can be served by a link")
)

// Linked returns the folder of the staged root that the link at Target leads to, of any version; "" when
// Target is no such link.
func (r Root) Linked() (string, error) {
	dir, err := os.Readlink(r.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL): // EINVAL: not a link
		return "", nil
	case err != nil:
		return "", fmt.Errorf("where does the driver root lead to: %w", err)
	case filepath.IsAbs(dir) && filepath.Base(filepath.Dir(dir)) == rootsDir && linkedName().MatchString(filepath.Base(dir)):
		return dir, nil
	}
	return "", nil
}

// Link makes Target lead to the root atomically, if Target does not exist, is an empty folder or is a link to
// another root. Anything else stays and is an error: MountedError, ErrNotOurs.
func (s Staged) Link(ctx context.Context) error {
	r := s.Root
	if r.Storage == "" || !r.HostDev {
		return fmt.Errorf("link the driver root: %w", ErrNotLinkable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("link the driver root: %w", context.Cause(ctx))
	}
	mounts, err := r.Mounts()
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return &MountedError{r.Target, mounts}
	}
	if err := s.furnishLinked(); err != nil {
		return fmt.Errorf("link the driver root %s: %w", s.Dir, err)
	}
	if err := r.pointTo(s.Dir); err != nil {
		return fmt.Errorf("link %s to %s: %w", r.Target, s.Dir, err)
	}
	return nil
}

// furnishLinked creates the folders that a mounted root has from its mounts. It removes dev and sys, in which
// consumers would look for devices; a container that mounted this root may have left them.
func (s Staged) furnishLinked() error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := serveFirmware(root, s.Root.Version); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "sys"} {
		if err := removeIfExists(root, dir); err != nil {
			return fmt.Errorf("a root beside the host's /dev must not have %s: %w", dir, err)
		}
	}
	for _, sub := range append([]string{"proc"}, runDirs...) {
		if err := ownFolder(root, sub); err != nil {
			return err
		}
	}
	return nil
}

// pointTo creates a link to dir at Target.
func (r Root) pointTo(dir string) error {
	parent := filepath.Dir(r.Target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(parent, "."+filepath.Base(r.Target)+".tmp") // the caller holds the node's lock: nobody else creates it
	if err := clearAway(tmp); err != nil {
		return err
	}
	if err := os.Symlink(dir, tmp); err != nil {
		return err
	}
	err := r.replaceBy(tmp)
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// replaceBy renames the link to Target. A rename cannot replace a folder, so a folder and the link are
// exchanged.
func (r Root) replaceBy(tmp string) error {
	st, err := os.Lstat(r.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(tmp, r.Target)
	case err != nil:
		return err
	case st.Mode()&fs.ModeSymlink != 0:
		if dir, err := r.Linked(); err != nil || dir == "" {
			return errors.Join(fmt.Errorf("%w: it is a link to elsewhere; remove it", ErrNotOurs), err)
		}
		return os.Rename(tmp, r.Target)
	case !st.IsDir():
		return fmt.Errorf("%w: it is a file; remove it", ErrNotOurs)
	}
	if _, err := onlyFolders(r.Target); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, r.Target, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("change places with the folder there: %w", err)
	}
	return clearAway(tmp)
}

// onlyFolders returns a folder and all folders in it, parents first. Anything else in it is an error: the
// kubelet creates folders when a pod mounts a path below the driver root.
func onlyFolders(dir string) (folders []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if folders = append(folders, path); !d.IsDir() || len(folders) > maxStray {
			return fmt.Errorf("%w: the folder has %s in it; remove it", ErrNotOurs, path)
		}
		return nil
	})
	return folders, err
}

// clearAway removes a link, or a folder that contains only folders. It removes each folder by itself, so it
// never removes a file, and the kernel refuses a folder on which something is mounted.
func clearAway(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return os.Remove(path)
	}
	folders, err := onlyFolders(path)
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(folders) {
		if err := unix.Rmdir(dir); err != nil {
			return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
		}
	}
	return nil
}

// Unlink removes the link at Target; anything that is not a link to a staged root stays and is no error. The
// root itself stays until Prune for consumers that have it mounted.
func (r Root) Unlink() error {
	dir, err := r.Linked()
	if err != nil || dir == "" {
		return err
	}
	if err := os.Remove(r.Target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to the driver root: %w", err)
	}
	return nil
}
