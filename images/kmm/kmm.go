// Package kmm lays compiled modules out as Kernel Module Management (KMM) takes them from an image: in
// /opt/lib/modules/<kernel>, with the files of depmod. The modules are second names of the files of their
// set, so that a layer has each module once.
//
// It neither compiles nor signs, and it knows nothing of clusters.
package kmm

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// Method is part of the key of layers. Raise it when the same modules are to give other files.
const Method = 1

// Add adds a set to the tree of a layer that has the set's own files already.
func Add(tree *rootfs.Tree, set *kbuild.Set) error {
	release := set.Key.Release
	if release == "" || strings.Contains(release, "/") || strings.Trim(release, ".") == "" {
		return fmt.Errorf("modules %s for KMM: %q is no release of a kernel", set.Key, release)
	}
	dir := path.Join(recipe.KMMDir, release)
	var modules []module
	for _, f := range set.Modules {
		base := filepath.Base(f.Path)
		if err := tree.AddHardLink(path.Join(dir, base), path.Join(recipe.ModulesDir, filepath.Base(set.Dir), base)); err != nil {
			return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
		}
		l, err := kmod.ReadLinkage(f.Path)
		if err != nil {
			return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
		}
		modules = append(modules, module{base, kmod.ModuleName(f.Name), l})
	}
	files, err := depmod(modules)
	if err != nil {
		return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
	}
	for _, f := range files {
		if err := tree.AddBytes(path.Join(dir, f.name), 0o644, f.content); err != nil {
			return err
		}
	}
	return nil
}
