package headers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// temporary is the name under which a file is written, in the folder of its area. There is one at a time.
const temporary = ".driver-headers.new"

// tree writes packages into a root. Links above its areas (lib -> usr/lib) are followed inside of the root; below them
// there are only folders that are real.
type tree struct {
	root    *os.Root
	release string
	say     func(string, ...any)
	areas   []*area
	marked  []marker
	replace bool // the package is an upgrade: its files may replace others
	entries int
	bytes   int64
}

// marker is a file that is written when all others are there.
type marker struct {
	area *area
	name string
	mode fs.FileMode
	time time.Time
	data []byte
	over bool // it may replace another
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

// close gives the folders back, and removes what was made if it is not whole.
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

// file writes a file under a temporary name and puts it in its place.
func (t *tree) file(a *area, name string, h *tar.Header, r io.Reader) error {
	if err := a.write(h.FileInfo().Mode(), h.ModTime, r, false); err != nil {
		return errors.Join(err, a.discard())
	}
	return t.put(a, name)
}

// put renames the temporary file. What is there and the same stays, with its time; what differs is only replaced by an
// upgrade.
func (t *tree) put(a *area, name string) error {
	old, err := a.root.Lstat(name)
	if err == nil {
		same := false
		if old.Mode().IsRegular() {
			if same, err = a.same(name); err != nil {
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

// link makes a symbolic link. Its target may be absolute, which means the root; it must be in a system's static part.
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
	pointer := a.ofModules() && (path.Base(name) == "build" || path.Base(name) == "source")
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

// linkBuild makes the link that leads from the kernel's modules to the first of the trees that is there, as Red Hat's package of
// the kernel itself has it, which nobody needs here. One that is there stays.
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

// hardLink gives a file that was unpacked before a second name.
func (t *tree) hardLink(a *area, h *tar.Header, name string) error {
	dir, target, ok := t.place(h.Linkname)
	if !ok || dir != a.dir || marks(name) || marks(target) {
		return fmt.Errorf("%w: a hard link to %.100q", ErrPackage, h.Linkname)
	}
	if err := a.mkdir(path.Dir(target)); err != nil { // its folders are real ones
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

// mark keeps a file for the end.
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

// publish writes what says that the headers are whole, when everything else is on the disk: after a power cut there must
// be no tree with empty files that says so. utsrelease.h is the very last, because it decides (see marks).
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
