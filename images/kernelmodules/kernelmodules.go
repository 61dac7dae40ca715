// Package kernelmodules puts sets of compiled kernel modules into layers and gets them out again,
// lays them out for Kernel Module Management (KMM), and signs those of images, with a key or with
// signatures that an offline signer made. In an image each set is a folder of recipe.ModulesDir, as
// in a kbuild.Cache.
//
// It neither compiles nor decides which keys to trust, and it knows nothing of clusters.
package kernelmodules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// maxManifest bounds the description of a set, in bytes; it has some kilobytes.
const maxManifest = 4 << 20

// Add puts a stored set into a tree: its modules and its manifest.
func Add(tree *rootfs.Tree, set *kbuild.Set) error {
	names := []string{kbuild.ManifestName}
	for _, f := range set.Modules {
		names = append(names, filepath.Base(f.Path))
	}
	for _, name := range names {
		if err := addLocal(tree, path.Join(recipe.ModulesDir, filepath.Base(set.Dir), name), filepath.Join(set.Dir, name)); err != nil {
			return fmt.Errorf("modules %s: %w", set.Key, err)
		}
	}
	return nil
}

// addLocal copies a file of this machine into a tree.
func addLocal(tree *rootfs.Tree, name, file string) (err error) {
	f, err := bounded.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return tree.AddFile(name, 0o644, info.Size(), io.LimitReader(f, info.Size()))
}

// Each calls f for each set of modules of a layer, which is checked and lies on this machine until
// f returns. work is an empty folder for f; forKMM says that KMM's folder has the modules too.
func Each(
	ctx context.Context,
	store *fetch.Store,
	l v1.Layer,
	f func(set *kbuild.Set, work string, forKMM bool) error,
) (err error) {
	dir, remove, err := layer.WorkFolder(store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return readLayer(ctx, store, l, isModuleFile, func(tree *rootfs.Tree) error {
		forKMM, err := checkKMM(tree)
		if err != nil {
			return err
		}
		list, err := tree.ReadDir(recipe.ModulesDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, d := range list {
			if !d.IsDir() {
				continue
			}
			set, err := Unpack(ctx, tree, d.Name(), filepath.Join(dir, "there"))
			if err != nil {
				return fmt.Errorf("modules %s: %w", d.Name(), err)
			}
			work := filepath.Join(dir, "work")
			if err := os.Mkdir(work, 0o755); err != nil {
				return err
			}
			if err := errors.Join(f(set, work, forKMM), os.RemoveAll(work)); err != nil {
				return err
			}
		}
		return nil
	})
}

// readLayer passes the files of a layer to f. Those that keep does not select have no content.
func readLayer(
	ctx context.Context,
	store *fetch.Store,
	l v1.Layer,
	keep func(string) bool,
	f func(*rootfs.Tree) error,
) (err error) {
	spool, err := rootfs.NewSpool(store.Dir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	tree := rootfs.New(spool, nil)
	if err := layer.Apply(ctx, tree, l, keep, progress.Quiet(), "modules"); err != nil {
		return fmt.Errorf("read a layer with modules: %w", err)
	}
	return f(tree)
}

// isModuleFile reports whether a path is that of a file of a set, or of a module in KMM's folder.
func isModuleFile(name string) bool { return inSet(name) || isKMMModule(name) }

// inSet reports whether a path is that of a file of a set: two parts below ModulesDir.
func inSet(name string) bool {
	rest, below := strings.CutPrefix(name, recipe.ModulesDir+"/")
	return below && strings.Count(rest, "/") == 1
}

// Unpack copies a set of an image into the folder of its name in dir, and checks it. An error that
// wraps kbuild.ErrMiss says that it is no set, or a damaged one.
func Unpack(ctx context.Context, tree *rootfs.Tree, name, dir string) (*kbuild.Set, error) {
	from := path.Join(recipe.ModulesDir, name)
	to := filepath.Join(dir, name)
	list, err := tree.ReadDir(from)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	for _, d := range list {
		e, ok := tree.Lstat(path.Join(from, d.Name()))
		if !ok || e.Kind != rootfs.File {
			continue
		}
		if err := copyOut(ctx, e, filepath.Join(to, d.Name())); err != nil {
			return nil, err
		}
	}
	return kbuild.Cache{Dir: dir}.Find(ctx, func(k kbuild.Key) bool { return k.String() == name })
}

func copyOut(ctx context.Context, e *rootfs.Entry, to string) error {
	r, err := e.Open()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, rootfs.Cancellable(ctx, r))
	return errors.Join(err, f.Close())
}

// Manifests returns the sets of modules of a layer as their manifests describe them. It reads no
// module.
func Manifests(
	ctx context.Context,
	store *fetch.Store,
	l v1.Layer,
) (sets []*kbuild.Set, err error) {
	isManifest := func(name string) bool { return inSet(name) && path.Base(name) == kbuild.ManifestName }
	err = readLayer(ctx, store, l, isManifest, func(tree *rootfs.Tree) error {
		for _, e := range tree.All() {
			if e.Kind != rootfs.File || !isManifest(e.Path) {
				continue
			}
			if e.Size > maxManifest {
				return fmt.Errorf("%s: %w: %d bytes", e.Path, rootfs.ErrTooLarge, e.Size)
			}
			text, err := tree.ReadFile(e.Path)
			if err != nil {
				return err
			}
			set, err := kbuild.ParseManifest(text)
			if err != nil {
				return fmt.Errorf("%s: %w", e.Path, err)
			}
			sets = append(sets, set)
		}
		return nil
	})
	return sets, err
}
