package headers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// temporary is the name under which a file is written, in the folder of its area. There is at most one at a
// time.
const temporary = ".driver-headers.new"

// tree writes packages into a root. Links above its areas (lib -> usr/lib) are followed inside of the root;
// below the areas links are not followed.
type tree struct {
	root    *os.Root
	release string
	log     *slog.Logger
	areas   []*area
	marked  []marker
	replace bool // the package is an upgrade: its files may replace others
	entries int
	bytes   int64
}

// marker is a file that is written after all others.
type marker struct {
	area *area
	name string
	mode fs.FileMode
	time time.Time
	data []byte
	over bool // it may replace an existing file
}

func (t *tree) area(dir string) (*area, error) {
	for _, a := range t.areas {
		if a.dir == dir {
			return a, nil
		}
	}
	if err := t.root.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sub, err := t.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := sub.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EROFS) {
		return nil, errors.Join(fmt.Errorf("remove what a killed predecessor left: %w", err), sub.Close())
	}
	a := &area{dir: dir, root: sub, known: map[string]bool{".": true}, buf: make([]byte, copyBuffer)}
	t.areas = append(t.areas, a)
	return a, nil
}

// close closes the folders. After a failure it removes what was created, because that is incomplete.
func (t *tree) close(failed bool) error {
	var errs []error
	for _, a := range t.areas {
		for _, name := range a.made {
			if failed {
				errs = append(errs, a.root.RemoveAll(name))
			}
		}
		errs = append(errs, a.root.Close())
	}
	return errors.Join(errs...)
}

// file writes a file under a temporary name and renames it.
func (t *tree) file(a *area, name string, h *tar.Header, r io.Reader) error {
	if err := a.write(h.FileInfo().Mode(), h.ModTime, r, false); err != nil {
		return errors.Join(err, a.discard())
	}
	return t.put(a, name)
}

// put renames the temporary file. An identical existing file stays with its time; a different one is replaced
// only by an upgrade.
func (t *tree) put(a *area, name string) error {
	old, err := a.root.Lstat(name)
	if err == nil {
		same := false
		if old.Mode().IsRegular() {
			if same, err = a.isSame(name); err != nil {
				return errors.Join(err, a.discard())
			}
		}
		if same {
			return a.discard()
		}
		if old.IsDir() || !t.replace {
			return errors.Join(a.conflict(name, "it differs"), a.discard())
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		a.note(name)
	} else {
		return errors.Join(err, a.discard())
	}
	if err := a.root.Rename(temporary, name); err != nil {
		return errors.Join(err, a.discard())
	}
	return nil
}

// link creates a symbolic link. Its target may be absolute, relative to the root; it must be in the static
// part of the system.
func (t *tree) link(a *area, h *tar.Header, name string) error {
	target := h.Linkname
	lead := target
	if !path.IsAbs(target) {
		lead = path.Join(path.Dir(h.Name), target) // h.Name is clean and relative: ".." at the front leads out of the root
	}
	lead = strings.TrimPrefix(path.Clean(lead), "/")
	if first, _, _ := strings.Cut(lead, "/"); first != "usr" && first != "lib" {
		return fmt.Errorf("%w: a link to %.100q", ErrPackage, target)
	}
	pointer := a.isModules() && (path.Base(name) == "build" || path.Base(name) == "source")
	if have, err := a.root.Readlink(name); err == nil && have == target {
		return nil
	}
	if _, err := a.root.Lstat(name); err != nil {
		a.note(name)
	} else if !t.replace && !pointer {
		return a.conflict(name, "it differs")
	}
	if err := a.root.Symlink(target, temporary); err != nil {
		return err
	}
	if err := a.root.Rename(temporary, name); err != nil {
		return errors.Join(err, a.discard())
	}
	return nil
}

// linkBuild creates the link from the kernel's modules to the first existing tree. In Red Hat's systems the
// package of the kernel itself has this link, and that package is not needed otherwise. An existing link
// stays.
func (t *tree) linkBuild(dirs []string) error {
	for _, dir := range dirs {
		if fi, err := t.root.Stat(dir); err != nil || !fi.IsDir() {
			continue
		}
		name := "lib/modules/" + t.release + "/build"
		if _, err := t.root.Lstat(name); err == nil {
			return nil
		}
		return t.member(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: "/" + dir}, strings.NewReader(""), map[string]bool{})
	}
	return nil
}

// hardLink adds a second name to a file that was unpacked before.
func (t *tree) hardLink(a *area, h *tar.Header, name string) error {
	dir, target, ok := t.splitName(h.Linkname)
	if !ok || dir != a.dir || marks(name) || marks(target) {
		return fmt.Errorf("%w: a hard link to %.100q", ErrPackage, h.Linkname)
	}
	if err := a.mkdir(path.Dir(target)); err != nil { // refuses links among its parents
		return err
	}
	if fi, err := a.root.Lstat(target); err != nil || !fi.Mode().IsRegular() {
		return fmt.Errorf("%w: a hard link to %.100q, which is no file before it", ErrPackage, h.Linkname)
	}
	if err := a.root.Link(target, temporary); err != nil {
		return err
	}
	return t.put(a, name)
}

// mark keeps a file in memory for publish.
func (t *tree) mark(a *area, name string, h *tar.Header, r io.Reader) error {
	const most = 4096
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return err
	}
	if len(data) > most || len(t.marked) == maxPackages {
		return fmt.Errorf("%w: more than %d bytes in a file that names a release", ErrPackage, most)
	}
	t.marked = append(t.marked, marker{a, name, h.FileInfo().Mode(), h.ModTime, data, t.replace})
	return nil
}

// publish writes the files that mark the headers as complete, after everything else is on the disk: after a
// power failure there must be no tree that has these files and empty ones. utsrelease.h is the very last one,
// because it decides (see marks).
func (t *tree) publish() error {
	for _, a := range t.areas {
		if err := a.sync(); err != nil {
			return fmt.Errorf("write to disk: %w", err)
		}
	}
	slices.SortStableFunc(t.marked, func(x, y marker) int {
		return strings.Compare(path.Base(x.name), path.Base(y.name))
	})
	for _, m := range t.marked {
		if err := m.area.write(m.mode, m.time, bytes.NewReader(m.data), true); err != nil {
			return errors.Join(err, m.area.discard())
		}
		t.replace = m.over
		if err := t.put(m.area, m.name); err != nil {
			return err
		}
	}
	return nil
}
