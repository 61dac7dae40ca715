package headers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const copyBuffer = 128 << 10

// area is a folder of the root that gets trees of packages.
type area struct {
	dir   string
	root  *os.Root
	known map[string]bool // folders that exist and are no links
	made  []string        // entries at the top that this call created
	// Shared buffer of copyBuffer bytes: one for each of 16000 files would be half a gigabyte.
	buf []byte
}

// mkdir creates a folder and its parents. It refuses a link in the path, because a package could lead to any
// folder with one.
func (a *area) mkdir(name string) error {
	if a.known[name] {
		return nil
	}
	if err := a.mkdir(path.Dir(name)); err != nil {
		return err
	}
	err := a.root.Mkdir(name, 0o755)
	switch {
	case err == nil:
		a.note(name)
	case errors.Is(err, fs.ErrExist):
		fi, err := a.root.Lstat(name)
		if err != nil {
			return err
		}
		if !fi.IsDir() {
			return a.conflict(name, "it is not a folder")
		}
	default:
		return err
	}
	a.known[name] = true
	return nil
}

func (a *area) isModules() bool { return strings.HasSuffix(a.dir, "lib/modules") }

// note records what was created at the top, so that a failure can remove it.
func (a *area) note(name string) {
	if !strings.Contains(name, "/") {
		a.made = append(a.made, name)
	}
}

func (a *area) conflict(name, why string) error {
	return fmt.Errorf("/%s/%s: %w: %s, and the package has another; remove it, or bring complete headers of this kernel there", a.dir, name, ErrConflict, why)
}

func (a *area) write(mode fs.FileMode, modified time.Time, r io.Reader, sync bool) error {
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := a.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, a.buf) // not f: its ReadFrom allocates a buffer of its own
	if err == nil {
		err = f.Chmod(perm) // whatever the umask: containers with other users read headers through the driver root
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return a.root.Chtimes(temporary, modified, modified) // make compares modification times
}

func (a *area) discard() error {
	err := a.root.Remove(temporary)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isSame compares the temporary file with an existing one.
func (a *area) isSame(name string) (bool, error) {
	var readers [2]*os.File
	for i, n := range []string{temporary, name} {
		f, err := a.root.Open(n)
		if err != nil {
			return false, err
		}
		defer f.Close() //nolint:errcheck // opened for reading
		readers[i] = f
	}
	left, right := a.buf[:copyBuffer/2], a.buf[copyBuffer/2:]
	for {
		n, err := io.ReadFull(readers[0], left)
		m, err2 := io.ReadFull(readers[1], right)
		if n != m || !bytes.Equal(left[:n], right[:m]) {
			return false, nil
		}
		if err != nil || err2 != nil {
			return ended(err) && ended(err2), nil
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// sync waits until everything in the file system of an area is on the disk: one call instead of an fsync for
// each of 16000 files.
func (a *area) sync() error {
	f, err := a.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() // opened for its descriptor
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	err2 := conn.Control(func(fd uintptr) { err = unix.Syncfs(int(fd)) })
	return errors.Join(err, err2)
}
