package kernelmodules

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// KMMMethod is part of the key of layers for KMM. Raise it when the same modules are to give other files.
const KMMMethod = 1

// AddKMM adds a set to the tree of a layer that has the set's own files already, as KMM takes modules from an
// image: in /opt/lib/modules/<kernel>, with the files of depmod. The modules are second names of the files of
// their set, so that a layer has each module once.
func AddKMM(tree *rootfs.Tree, set *kbuild.Set) error {
	release := set.Key.Release
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

// isKMMModule reports whether a path is that of a module in KMM's folder.
func isKMMModule(name string) bool {
	return recipe.InFolder(name, recipe.KMMDir) && strings.HasSuffix(name, ".ko")
}

// checkKMM reports whether a layer has modules for KMM. Each of them must be one of a set.
func checkKMM(tree *rootfs.Tree) (forKMM bool, err error) {
	var modules, files []*rootfs.Entry
	for _, e := range tree.All() {
		switch {
		case e.Kind == rootfs.File && isKMMModule(e.Path):
			modules = append(modules, e)
		case e.Kind == rootfs.File && inSet(e.Path):
			files = append(files, e)
		}
	}
	inSets := map[string]bool{}
	for _, e := range files {
		if sum, err := e.SHA256(); err == nil && len(modules) > 0 {
			inSets[path.Base(e.Path)+sum] = true
		}
	}
	for _, e := range modules {
		if sum, err := e.SHA256(); err != nil || !inSets[path.Base(e.Path)+sum] {
			return false, errors.Join(err, fmt.Errorf("%w: %.100s belongs to no set of modules: the image was changed after driver-build made it; build it again", rootfs.ErrFormat, e.Path))
		}
	}
	return len(modules) > 0, nil
}
