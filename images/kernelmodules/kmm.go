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

// module is a module of a folder.
type module struct {
	file string // "nvidia-uvm.ko"
	name string // "nvidia_uvm"
	kmod.Linkage
}

// depmod returns the files that depmod writes into a folder with these modules, by name.
// Dependencies on modules that the folder does not have are left out, as depmod does. The indexes
// of modules that are built into the kernel are empty ones.
func depmod(modules []module) (map[string][]byte, error) {
	modules = slices.Clone(modules)
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.file, b.file) })
	dep := &strings.Builder{}
	alias := &strings.Builder{}
	softdep := &strings.Builder{}
	symbols := &strings.Builder{}
	alias.WriteString("# Aliases extracted from modules themselves.\n")
	softdep.WriteString("# Soft dependencies extracted from modules themselves.\n")
	symbols.WriteString("# Aliases for symbols, used by symbol_request().\n")
	var deps, aliases, exports []entry
	for i, m := range modules {
		needs, err := dependencies(modules, m.name)
		if err != nil {
			return nil, err
		}
		needs[0] += ":" // itself
		line := strings.Join(needs, " ")
		dep.WriteString(line + "\n")
		deps = append(deps, entry{m.name, line, i})
		for _, a := range m.Aliases {
			fmt.Fprintf(alias, "alias %s %s\n", a, m.name)
			aliases = append(aliases, entry{normalize(a), m.name, i})
		}
		for _, s := range m.Softdeps {
			fmt.Fprintf(softdep, "softdep %s %s\n", m.name, s)
		}
		for _, s := range slices.Sorted(slices.Values(m.Exports)) {
			fmt.Fprintf(symbols, "alias symbol:%s %s\n", s, m.name)
			exports = append(exports, entry{"symbol:" + s, m.name, i})
		}
	}
	files := map[string][]byte{
		"modules.alias":   []byte(alias.String()),
		"modules.dep":     []byte(dep.String()),
		"modules.devname": nil,
		"modules.softdep": []byte(softdep.String()),
		"modules.symbols": []byte(symbols.String()),
	}
	for name, entries := range map[string][]entry{
		"modules.alias.bin":         aliases,
		"modules.builtin.alias.bin": nil,
		"modules.builtin.bin":       nil,
		"modules.dep.bin":           deps,
		"modules.symbols.bin":       exports,
	} {
		index, err := writeIndex(entries)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = index
	}
	return files, nil
}

// dependencies are the files of the modules that a module needs, each before those that it needs
// itself: modprobe loads them from the last to the first.
func dependencies(modules []module, name string) (files []string, err error) {
	seen := map[string]bool{}
	var visit func(name string, above []string) error
	visit = func(name string, above []string) error {
		i := slices.IndexFunc(modules, func(m module) bool { return m.name == name })
		if slices.Contains(above, name) {
			return fmt.Errorf(
				"the modules %s need each other",
				strings.Join(append(above, name), ", "),
			)
		}
		if i < 0 || seen[name] { // a module of the kernel's own tree is not here
			return nil
		}
		seen[name] = true
		for _, need := range slices.Backward(slices.Sorted(slices.Values(modules[i].Depends))) {
			if err := visit(need, append(slices.Clone(above), name)); err != nil {
				return err
			}
		}
		files = append(files, modules[i].file)
		return nil
	}
	err = visit(name, nil)
	slices.Reverse(files)
	return files, err
}

// normalize is an alias as modprobe looks it up: with _ instead of -, except in sets of characters.
func normalize(alias string) string {
	out := []byte(alias)
	inSet := false
	for i, c := range out {
		switch {
		case c == '[':
			inSet = true
		case c == ']':
			inSet = false
		case c == '-' && !inSet:
			out[i] = '_'
		}
	}
	return string(out)
}
