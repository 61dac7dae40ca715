//go:build linux

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

// InsertDeps loads modules of the kernel's own tree by name (i2c_core, ipmi_msghandler, drm), each with its
// dependencies. u-root's prober finds them in the first of moduleRoots ("/proc/1/root", "/") that has
// <root>/lib/modules/<release>/modules.dep. A module that is loaded or built in counts as present.
//
// InsertDeps returns in inserted the names that it loaded, in order, also when it returns an error; in
// missing the names that are neither present nor known. An error names the module; it is a *RefusedError
// where the kernel refused one. InsertDeps calls record with each name before it loads that module, so that a
// caller knows what to remove even when it is killed meanwhile. It does not read modprobe.d.
func (s System) InsertDeps(ctx context.Context, release string, moduleRoots []string, record func(name string), names ...string) (inserted, missing []string, err error) {
	return s.insertDeps(ctx, release, moduleRoots, record, names, load)
}

func (s System) insertDeps(ctx context.Context, release string, roots []string, record func(string), names []string, load loader) (inserted, missing []string, err error) {
	var tree *moduleTree
	for _, name := range names {
		if present, err := s.isPresent(name); err != nil {
			return inserted, missing, err
		} else if present {
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
			if present, err := s.isPresent(nameOfFile(file)); err == nil && present {
				continue
			}
			record(nameOfFile(file))
			err := s.insert(ctx, file, nil, load)
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
	if isNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// moduleTree is the folder /lib/modules/<release> of one root.
type moduleTree struct {
	root, release string
	deps          map[string]string // file -> files that it needs, as in modules.dep
	known         map[string]string // name, with _ -> file
	builtin       map[string]bool   // names, with _

	prober *kmodule.Prober // nil until the first question
	mu     sync.Mutex
	answer []string // the prober's answer: files in the order of loading
}

// findTree looks for the tree where u-root's prober looks: in lib/modules, then in usr/lib/modules. Without a
// tree it returns an empty one, in which every module that is not in the kernel is missing. findTree refuses
// lines without a colon, because the prober panics on them.
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
			if isNotExist(err) {
				break // like the prober, which takes the first folder
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

// eachLine calls f for every line of a file of bounded size. Its limit of 64 KiB a line is the prober's.
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

// readDeps reads the "file: file file" lines of modules.dep.
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
	if err != nil && !isNotExist(err) {
		return fmt.Errorf("read %s: %w; run depmod for this kernel", path, err)
	}
	return nil
}

// check follows the dependencies of a file as the prober will, and refuses two things that the prober does
// not survive: modules that need each other (it waits for ever) and paths that lead out of the folder.
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

// files returns the files that a module needs, in the order in which to load them, without those of an
// earlier answer. u-root's prober answers but does not load: Insert uses finit_module, and its error says
// which module failed and why. Reading the tree is most of the work, so one prober serves all names. A prober
// keeps an error for ever, so the tree drops it after one.
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
			t.prober = nil // it takes these files for loaded
			return nil, fmt.Errorf("find the module %s: modules.dep names %s: %w; run depmod for this kernel", name, f, err)
		}
	}
	return files, nil
}

// found collects one file. The prober calls it from several goroutines.
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
