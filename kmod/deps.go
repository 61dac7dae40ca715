package kmod

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/u-root/u-root/pkg/kmodule"
)

const maxDeps = 32 << 20 // bytes of modules.dep and modules.builtin; large kernels have 1 MiB

// InsertDeps loads modules of the kernel's own tree, by name and with what they depend on: i2c_core, ipmi_msghandler, drm. They
// are found by u-root's prober in the first of the roots ("/proc/1/root", "/") that has <root>/lib/modules/<release>/modules.dep.
// What is loaded or built in counts as there. inserted are the names that were loaded now, in their order, also when an error
// ends it; missing are names that are neither there nor known. An error names the module and is *RefusedError where the kernel
// refused one. Nothing is asked of modprobe.d.
func (s System) InsertDeps(ctx context.Context, release string, moduleRoots []string, names ...string) (inserted, missing []string, err error) {
	return s.insertDeps(ctx, release, moduleRoots, names, load)
}

func (s System) insertDeps(ctx context.Context, release string, roots, names []string, load loader) (inserted, missing []string, err error) {
	var tree *moduleTree
	for _, name := range names {
		if there, err := s.there(name); err != nil {
			return inserted, missing, err
		} else if there {
			continue
		}
		if tree == nil {
			if tree, err = findTree(release, roots); err != nil {
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
			if there, err := s.there(nameOfFile(file)); err == nil && there {
				continue
			}
			err := s.insert(ctx, file, nil, load)
			if errors.Is(err, ErrLoaded) { // somebody else was faster
				continue
			}
			if err != nil {
				return inserted, missing, fmt.Errorf("load %s with what it depends on: %w", name, err)
			}
			inserted = append(inserted, nameOfFile(file))
		}
	}
	return inserted, missing, nil
}

func (s System) there(name string) (bool, error) {
	_, err := s.Module(name)
	if notThere(err) {
		return false, nil
	}
	return err == nil, err
}

// moduleTree is a folder /lib/modules/<release> of one root.
type moduleTree struct {
	root, release string
	deps          map[string]string // file -> files that it needs, as in modules.dep
	known         map[string]string // name, with _ -> file
	builtin       map[string]bool   // names, with _

	prober *kmodule.Prober // nil until it is asked
	mu     sync.Mutex
	answer []string // of the prober: files in the order of loading
}

// findTree looks for the tree where u-root's prober will, in lib/modules and then usr/lib/modules. Without any, it is an
// empty one: then everything that is not in the kernel is missing. The prober cannot cope with lines without a colon: they are
// refused here.
func findTree(release string, roots []string) (*moduleTree, error) {
	t := &moduleTree{release: release, known: map[string]string{}, builtin: map[string]bool{}}
	if release == "" || strings.ContainsAny(release, "/\x00 \t\n") || release == "." || release == ".." {
		return nil, fmt.Errorf("look for the kernel's modules: %q is not a kernel release", release)
	}
	for _, root := range roots {
		for _, lib := range []string{"lib/modules", "usr/lib/modules"} {
			dir := filepath.Join(root, lib, release)
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			deps, err := readDeps(filepath.Join(dir, "modules.dep"))
			if notThere(err) {
				break // as the prober, which takes the first folder
			}
			if err != nil {
				return nil, fmt.Errorf("read %s/modules.dep: %w; run depmod for this kernel", dir, err)
			}
			t.root, t.deps = root, deps
			for file := range deps {
				t.known[nameOfFile(file)] = file
			}
			return t, t.readBuiltin(filepath.Join(dir, "modules.builtin"))
		}
	}
	return t, nil
}

// eachLine calls f for every line of a file of bounded size; the prober takes lines of 64 KiB at most, and so does this.
func eachLine(path string, f func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxDeps {
		return fmt.Errorf("it is not a file of at most %d MiB", maxDeps>>20)
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxDeps))
	for lines.Scan() {
		if err := f(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readDeps reads "file: file file" lines.
func readDeps(path string) (map[string]string, error) {
	deps := map[string]string{}
	err := eachLine(path, func(line string) error {
		file, needs, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("the line %.80q has no colon", line)
		}
		deps[file] = needs
		return nil
	})
	return deps, err
}

func (t *moduleTree) readBuiltin(path string) error {
	err := eachLine(path, func(line string) error {
		t.builtin[nameOfFile(strings.TrimSpace(line))] = true
		return nil
	})
	if err != nil && !notThere(err) {
		return fmt.Errorf("read %s: %w; run depmod for this kernel", path, err)
	}
	return nil
}

// check looks at what the prober will follow from a file: it waits for ever on modules that need each other, and would leave the
// folder where a path leads out of it.
func (t *moduleTree) check(file string) error {
	const open, closed = 1, 2
	state := map[string]int{}
	var visit func(file string, depth int) error
	visit = func(file string, depth int) error {
		switch {
		case state[file] == closed:
			return nil
		case state[file] == open || depth > 256:
			return fmt.Errorf("%.80q depends on itself", file)
		case !filepath.IsLocal(file):
			return fmt.Errorf("%.80q leads out of the folder", file)
		}
		state[file] = open
		for d := range strings.FieldsSeq(t.deps[file]) {
			if err := visit(d, depth+1); err != nil {
				return err
			}
		}
		state[file] = closed
		return nil
	}
	return visit(file, 0)
}

// files asks u-root's prober which files a module needs, in the order to load them; those that an earlier answer had are left
// out. It is only asked, not let to load: an error of Insert says which module it was and why, and it uses finit_module. Reading
// the whole tree is most of the work, so one prober answers for all names; but it remembers errors for good, and ends with one.
func (t *moduleTree) files(name string) ([]string, error) {
	err := t.check(t.known[ModuleName(name)])
	if err != nil {
		err = fmt.Errorf("modules.dep: %w; run depmod for this kernel", err)
	}
	if err == nil && t.prober == nil {
		t.prober, err = kmodule.NewProber(kmodule.ProbeOpts{RootDir: t.root, KVer: t.release, IgnoreProcMods: true, DryRunCB: t.found})
	}
	if err == nil {
		err = t.prober.Probe(name, "")
	}
	files := t.take()
	if err != nil {
		t.prober = nil
		return nil, fmt.Errorf("find the module %s under %s: %w", name, filepath.Join(t.root, "lib/modules", t.release), err)
	}
	for _, f := range files {
		if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
			t.prober = nil // it takes them for loaded
			return nil, fmt.Errorf("find the module %s: modules.dep names %s: %w; run depmod for this kernel", name, f, err)
		}
	}
	return files, nil
}

// found is called by the prober, from several goroutines.
func (t *moduleTree) found(file string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer = append(t.answer, file)
}

func (t *moduleTree) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	files := slices.Clip(t.answer)
	t.answer = nil
	return files
}
