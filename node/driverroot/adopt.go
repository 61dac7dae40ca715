package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Adoptable says whether what is mounted at Target can go on serving driver Version: exactly one layer, whose source still
// exists, readable, with libraries of that version and no other. The text says why not, or what is worth knowing although.
func (r Root) Adoptable() (bool, string) {
	mounts, err := r.Mounts()
	if err != nil {
		return false, err.Error()
	}
	base, layers := baseOf(mounts, r.Target)
	switch {
	case len(mounts) == 0:
		return false, "nothing is mounted there"
	case layers != 1:
		return false, fmt.Sprintf("%d layers are mounted there", layers)
	case base.Deleted():
		return false, "what is mounted there was removed at its source"
	}
	return r.fit(r.Target, r.Storage == "" && identity(r.Target) == identity(r.Image))
}

// AdoptableLink says the same of a link at Target.
func (r Root) AdoptableLink() (bool, string) {
	dir, err := r.Linked()
	switch {
	case err != nil:
		return false, err.Error()
	case dir == "":
		return false, "there is no link to a driver root"
	case r.Storage == "" || filepath.Dir(dir) != filepath.Join(r.Storage, rootsDir):
		return false, fmt.Sprintf("it leads to %s, which is not in the storage of this container", dir)
	}
	for _, sub := range []string{"dev", "sys"} {
		if _, err := os.Lstat(filepath.Join(dir, sub)); err == nil {
			return false, fmt.Sprintf("it has a folder %s, where consumers would look for devices", sub)
		}
	}
	return r.fit(dir, false)
}

// fit says whether the root at dir serves our driver; own, that it is this container's own root.
func (r Root) fit(dir string, own bool) (bool, string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Sprintf("it cannot be read: %v", err)
	}
	defer root.Close()
	if err := serves(root, r.Version); err != nil {
		return false, err.Error()
	}
	m, err := readMarker(root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && own:
		return true, ""
	case errors.Is(err, fs.ErrNotExist):
		return false, "it is the root of a container, which may be gone, and not a copy on the host's storage"
	case err != nil:
		return false, err.Error()
	}
	if err := intact(root, r.Version, m.ID); err != nil {
		return false, fmt.Sprintf("it is damaged: %v", err)
	}
	if m.ID != r.ID {
		return true, fmt.Sprintf("it comes from another build of driver %s (%.12s, ours is %.12s)", r.Version, m.ID, r.ID)
	}
	return true, ""
}

// baseOf is the bottom layer at target and how many there are.
func baseOf(mounts []Mount, target string) (Mount, int) {
	target, err := realPath(target)
	if err != nil {
		return Mount{}, 0
	}
	var base Mount
	layers := 0
	for _, m := range mounts {
		if m.Point == target {
			if layers == 0 {
				base = m
			}
			layers++
		}
	}
	return base, layers
}

// serves checks that a root lists and can read the driver's libraries. Listing matters: the folders of a container's root that
// was removed are empty, while files that somebody opened lately may still open.
func serves(root *os.Root, version string) error {
	found := false
	for _, dir := range libraryDirs {
		for _, e := range readDir(root, dir) {
			m := versioned.FindStringSubmatch(e.Name())
			if m == nil {
				continue
			}
			if m[1] != version {
				return fmt.Errorf("it has %s of another driver than %s", path.Join(dir, e.Name()), version)
			}
			if err := readable(root, path.Join(dir, e.Name())); err != nil {
				return err
			}
			found = true
		}
	}
	if !found {
		return fmt.Errorf("it has no libraries of driver %s", version)
	}
	return nil
}

func readable(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != "\x7fELF" {
		return fmt.Errorf("its %s is not a library", name)
	}
	return nil
}

// Refresh renews the submounts of a root that was adopted: those that a dead container left show its folders, not ours. The
// base mount is not touched, and submounts that show the right folder stay. It may return a *NotSharedError after success.
func (r Root) Refresh(ctx context.Context) error {
	mounts, err := r.Mounts()
	if err != nil {
		return err
	}
	base, layers := baseOf(mounts, r.Target)
	if layers != 1 {
		return fmt.Errorf("renew the mounts in the driver root: there are %d layers at %s: unmount them", layers, r.Target)
	}
	if err := r.refresh(ctx, mounts); err != nil {
		return fmt.Errorf("renew the mounts in the driver root: %w", err)
	}
	if !base.Shared {
		return &NotSharedError{r.Target, base.Point}
	}
	return nil
}

func (r Root) refresh(ctx context.Context, mounts []Mount) error {
	if err := r.RunDirs(); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.Target)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Stat(markerPath)
	wanted := r.submounts(err == nil)
	for _, sub := range r.submounts(false) {
		if slices.Contains(wanted, sub) {
			err = r.renew(ctx, root, sub, mounts)
		} else {
			err = r.takeOut(ctx, root, sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renew makes sub show our folder.
func (r Root) renew(ctx context.Context, root *os.Root, sub string, mounts []Mount) error {
	from, to := filepath.Join(r.Image, sub), filepath.Join(r.Target, sub)
	if err := ownFolder(root, sub); err != nil {
		return err
	}
	resolved, err := realPath(to)
	if err != nil {
		return err
	}
	layers := 0
	for _, m := range mounts {
		if atOrBelow(m.Point, resolved) {
			layers++
		}
	}
	if layers == 1 && identity(from) == identity(to) && identity(from) != (inode{}) {
		return nil
	}
	if err := r.clear(ctx, to); err != nil {
		return err
	}
	return withScratch(func(scratch string) error {
		if err := bindPrivate(from, scratch); err != nil {
			return err
		}
		if err := unix.Mount(scratch, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s on %s: %w", from, to, err)
		}
		return nil
	})
}

// takeOut removes a submount that must not be there, and its folder.
func (r Root) takeOut(ctx context.Context, root *os.Root, sub string) error {
	st, err := root.Lstat(sub)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !st.IsDir() {
		return fmt.Errorf("%s in the driver root is not a folder: %w", sub, errors.Join(err, fs.ErrInvalid))
	}
	if err := r.clear(ctx, filepath.Join(r.Target, sub)); err != nil {
		return err
	}
	return root.Remove(sub)
}

func (r Root) clear(ctx context.Context, dir string) error {
	_, err := r.unmountBelow(ctx, dir)
	return err
}
