package kernelmodules

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// KMMMethod is part of the key of layers for KMM. Raise it when the same modules are to give other
// files.
const KMMMethod = 1

// AddKMM adds a set to the tree of a layer that has the set's own files already, as KMM takes
// modules from an image: in /opt/lib/modules/<kernel>, with the files of depmod. The modules are
// second names of the files of their set, so that a layer has each module once.
func AddKMM(tree *rootfs.Tree, set *kbuild.Set) error {
	release := set.Key.Release
	dir := path.Join(recipe.KMMDir, release)
	var modules []Module
	for _, f := range set.Modules {
		base := filepath.Base(f.Path)
		if err := tree.AddHardLink(path.Join(dir, base), path.Join(recipe.ModulesDir, filepath.Base(set.Dir), base)); err != nil {
			return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
		}
		l, err := kmod.ReadLinkage(f.Path)
		if err != nil {
			return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
		}
		modules = append(modules, Module{base, kmod.ModuleName(f.Name), l})
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.File, b.File) })
	files, err := Depmod(modules, nil)
	if err != nil {
		return fmt.Errorf("modules %s for KMM: %w", set.Key, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := tree.AddBytes(path.Join(dir, name), 0o644, files[name]); err != nil {
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
	if len(modules) == 0 {
		return false, nil
	}
	for _, e := range files {
		sum, _ := e.SHA256() // without one it is no module's
		inSets[path.Base(e.Path)+sum] = true
	}
	for _, e := range modules {
		sum, err := e.SHA256()
		if err != nil || !inSets[path.Base(e.Path)+sum] {
			wrong := fmt.Errorf("%w: %.100s belongs to no set of modules: the image was changed after driver-build made it; "+
				"build it again", rootfs.ErrFormat, e.Path)
			return false, errors.Join(err, wrong)
		}
	}
	return true, nil
}
