//go:build linux

package kmod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

const maxDeps = 32 << 20 // bytes of modules.dep and modules.builtin; large kernels have 1 MiB

// InsertDeps loads modules of the kernel's own tree by name (i2c_core, ipmi_msghandler, drm), each
// with its dependencies. The tree is in the first of moduleRoots ("/proc/1/root", "/") that has
// <root>/lib/modules/<release>/modules.dep. A module that is loaded or built in counts as present.
//
// InsertDeps returns in inserted the names that it loaded, in order, also when it returns an error;
// in missing the names that are neither present nor known. An error names the module; it is a
// *RefusedError where the kernel refused one. InsertDeps calls record with each name before it
// loads that module, so that a caller knows what to remove even when it is killed meanwhile. It
// does not read modprobe.d.
func (s System) InsertDeps(
	ctx context.Context,
	release string,
	moduleRoots []string,
	record func(name string),
	names ...string,
) (inserted, missing []string, err error) {
	var tree *moduleTree
	for _, name := range names {
		if present, err := s.isPresent(name); err != nil {
			return inserted, missing, err
		} else if present {
			continue
		}
		if tree == nil {
			tree, err = findTree(release, moduleRoots)
			if err != nil {
				return inserted, missing, err
			}
		}
		switch {
		case tree.builtin[ModuleName(name)]:
			continue
		case tree.known[ModuleName(name)] == "":
			missing = append(missing, name)
			continue
		}
		files, err := tree.files(name)
		if err != nil {
			return inserted, missing, err
		}
		for _, file := range files {
			if present, _ := s.isPresent(nameOfFile(file)); present { //nolint:errcheck // then the load says it
				continue
			}
			record(nameOfFile(file))
			err := s.Insert(ctx, file, "", nil)
			if errors.Is(err, ErrLoaded) { // another process loaded it first
				continue
			}
			if err != nil {
				return inserted, missing, fmt.Errorf("load %s with its dependencies: %w", name, err)
			}
			inserted = append(inserted, nameOfFile(file))
		}
	}
	return inserted, missing, nil
}

func (s System) isPresent(name string) (bool, error) {
	_, err := s.Module(name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return true, nil
}

// moduleTree is the folder /lib/modules/<release> of one root.
type moduleTree struct {
	dir string
	// file -> all files that it needs, the last one first to load, as in modules.dep
	deps    map[string]string
	known   map[string]string // name, with _ -> file
	builtin map[string]bool   // names, with _
}

// findTree looks for the tree in lib/modules, then in usr/lib/modules. Without a tree it returns an
// empty one, in which every module that is not in the kernel is missing.
func findTree(release string, roots []string) (*moduleTree, error) {
	t := &moduleTree{
		deps:    map[string]string{},
		known:   map[string]string{},
		builtin: map[string]bool{},
	}
	if release == "" || strings.ContainsAny(release, "/\x00 \t\n") || release == "." ||
		release == ".." {
		return nil, fmt.Errorf("look for the kernel's modules: %q is not a kernel release", release)
	}
	for _, root := range roots {
		for _, lib := range []string{"lib/modules", "usr/lib/modules"} {
			t.dir = filepath.Join(root, lib, release)
			err := t.read()
			if isNotExist(err) {
				continue
			}
			return t, err
		}
	}
	return t, nil
}

// read reads modules.dep, whose lines are "file: file file", and the names in modules.builtin, if
// there are any.
//
// kmodule.Probe reads them too, and does not do here: a line without a colon makes it panic, which
// would end process 1 of the container; it does not tell a module that is missing from a tree that
// is damaged; and it loads files outside of the tree.
func (t *moduleTree) read() error {
	const advice = "run depmod for this kernel"
	path := filepath.Join(t.dir, "modules.dep")
	text, err := bounded.Text(path, maxDeps)
	if err != nil {
		return fmt.Errorf("read %s: %w; %s", path, err, advice)
	}
	for line := range strings.Lines(text) {
		file, needs, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("read %s: the line %.80q has no colon; %s", path, line, advice)
		}
		t.deps[file] = needs
		t.known[nameOfFile(file)] = file
	}
	path = filepath.Join(t.dir, "modules.builtin")
	text, err = bounded.Text(path, maxDeps)
	if ignoreMissing(err) != nil {
		return fmt.Errorf("read %s: %w; %s", path, err, advice)
	}
	for line := range strings.Lines(text) {
		t.builtin[nameOfFile(strings.TrimSpace(line))] = true
	}
	return nil
}

// files returns the paths of a module and of those that it needs, in the order in which to load
// them.
func (t *moduleTree) files(name string) (files []string, err error) {
	file := t.known[ModuleName(name)]
	files = append([]string{file}, strings.Fields(t.deps[file])...)
	files = slices.DeleteFunc(files, func(f string) bool { return t.builtin[nameOfFile(f)] })
	slices.Reverse(files)
	for i, f := range files {
		if !filepath.IsLocal(f) {
			return nil, fmt.Errorf(
				"find the module %s in %s: %.80q leads out of the folder; run depmod for this kernel",
				name,
				t.dir,
				f,
			)
		}
		files[i] = filepath.Join(t.dir, f)
		if _, err := os.Stat(files[i]); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf(
				"find the module %s: modules.dep names %s: %w; run depmod for this kernel",
				name,
				files[i],
				err,
			)
		}
	}
	return files, nil
}
