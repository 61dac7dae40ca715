package driverroot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/node/mounttable"
)

// Adopt keeps the root that a predecessor mounted at Target, if it can continue to serve driver
// Version: it must be exactly one layer whose source still exists, and a whole staged root of that
// version or this container's own root. Otherwise the error says why not. It renews the submounts,
// because those of a container that has ended show its folders and not ours. dir is the staged root
// that is mounted, which may be that of another build of the image; "" for one that is not in
// Storage.
func (r *Root) Adopt(ctx context.Context) (dir string, err error) {
	mounts, err := r.mounts()
	if err != nil {
		return "", err
	}
	base, layers := baseOf(mounts, r.Target)
	switch {
	case len(mounts) == 0:
		return "", errors.New("nothing is mounted there")
	case layers != 1:
		return "", fmt.Errorf("%d layers are mounted there", layers)
	case base.Deleted():
		return "", errors.New("what is mounted there was removed at its source")
	}
	root, err := os.OpenRoot(r.Target)
	if err != nil {
		return "", fmt.Errorf("it cannot be read: %w", err)
	}
	defer root.Close()
	dir, err = r.adoptable(root)
	if err != nil {
		return "", err
	}
	err = r.refresh(ctx, root, mounts)
	if err != nil {
		return "", fmt.Errorf("its mounts could not be renewed: %w", err)
	}
	r.warnUnlessShared(base)
	return dir, nil
}

// adoptable returns the staged root that is mounted and can be adopted.
func (r *Root) adoptable(root *os.Root) (dir string, err error) {
	m, err := readMarker(root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Storage == "" && isSameFile(r.Target, r.Image): // this container's own root
		return "", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New(
			"it is the root of a container, which may be gone, and not a copy on the host's storage",
		)
	case err != nil:
		return "", err
	}
	err = checkIntact(root, r.Version, m.ID)
	if err != nil {
		return "", fmt.Errorf("it is damaged: %w", err)
	}
	if m.ID != r.ID {
		r.Log.Info(
			"the driver root stays, which comes from another build of the image",
			"driver",
			m.Version,
			"build",
			m.ID,
			"ours",
			r.ID,
		)
	}
	dir, err = r.folder(m.Version, m.ID)
	if err != nil || !isSameFile(dir, r.Target) { // a former start had other storage
		return "", err
	}
	return dir, nil
}

// baseOf returns the bottom layer at target and the number of layers.
func baseOf(mounts []mounttable.Mount, target string) (mounttable.Mount, int) {
	target, err := mounttable.RealPath(target)
	if err != nil {
		return mounttable.Mount{}, 0
	}
	var base mounttable.Mount
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

// refresh keeps the base mount and submounts that show the right folder, such as the host's /dev,
// and adds submounts that are missing.
func (r *Root) refresh(ctx context.Context, root *os.Root, mounts []mounttable.Mount) error {
	err := r.makeRunDirs()
	if err != nil {
		return err
	}
	for _, sub := range submounts() {
		err := r.renew(ctx, root, sub, mounts)
		if err != nil {
			return err
		}
	}
	return nil
}

// renew makes the submount show our folder.
func (r *Root) renew(
	ctx context.Context,
	root *os.Root,
	sub string,
	mounts []mounttable.Mount,
) error {
	from := filepath.Join(r.Image, sub)
	to := filepath.Join(r.Target, sub)
	if err := ownFolder(root, sub); err != nil {
		return err
	}
	resolved, err := mounttable.RealPath(to)
	if err != nil {
		return err
	}
	layers := 0
	for _, m := range mounts {
		if mounttable.AtOrBelow(m.Point, resolved) {
			layers++
		}
	}
	if layers == 1 && isSameFile(from, to) {
		return nil
	}
	if err := r.unmountBelow(ctx, to); err != nil {
		return err
	}
	return withScratch(from, func(scratch string) error { return bind(scratch, to, 0) })
}
