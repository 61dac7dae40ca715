package lock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// Holder describes who holds the lock, as the lock file names it. Of NVIDIA's container only PID is known;
// PID 0 means that even this is unknown.
type Holder struct {
	PID   int       `json:"pid"`
	Pod   string    `json:"pod,omitempty"`
	Image string    `json:"image,omitempty"`
	Host  string    `json:"host,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// String is the form for logs: `pid 4711, pod gpu/driver-x7k2p, image driver:535.261.03-debian12, since
// 2026-01-02T15:04:05Z`.
func (h Holder) String() string {
	var pid, since string
	if h.PID > 0 {
		pid = strconv.Itoa(h.PID)
	}
	if !h.Since.IsZero() {
		since = h.Since.UTC().Format(time.RFC3339)
	}
	var parts []string
	for _, v := range [][2]string{{"pid", pid}, {"pod", h.Pod}, {"image", h.Image}, {"host", h.Host}, {"since", since}} {
		if v[1] != "" {
			parts = append(parts, v[0]+" "+v[1])
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "a process that left no name")
}

// maxContent limits what is read of a lock file: any process on the node may have written it.
const maxContent = 4096

// parse reads the content of our file (JSON) or of NVIDIA's (a process id). Any other content is an unknown
// holder, since only the lock itself counts. Control characters are replaced, because the text goes to logs.
func parse(content []byte) Holder {
	text := strings.TrimSpace(string(content))
	if pid, err := strconv.Atoi(text); err == nil {
		return Holder{PID: max(pid, 0)}
	}
	var h Holder
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return Holder{}
	}
	if y := h.Since.Year(); y < 1970 || y > 9999 { // such a time cannot be marshalled as JSON again
		h.Since = time.Time{}
	}
	return Holder{PID: max(h.PID, 0), Pod: clean(h.Pod), Image: clean(h.Image), Host: clean(h.Host), Since: h.Since}
}

func clean(s string) string { return strings.ToValidUTF8(kmsg.Printable(s[:min(len(s), 512)]), "") }

func readHolder(f *os.File) Holder {
	content, err := io.ReadAll(io.NewSectionReader(f, 0, maxContent))
	if err != nil {
		return Holder{}
	}
	return parse(content)
}

// Path returns the path of our own lock file in the folder that all instances share, /run/nvidia.
func Path(run string) string { return filepath.Join(run, "driver-entrypoint.lock") }

// LegacyPath returns the path of the lock file of NVIDIA's container, in the same folder.
func LegacyPath(run string) string { return filepath.Join(run, "nvidia-driver.pid") }

// Held returns who holds the lock of a node and whether somebody does. It looks at our file in run and, if
// nobody has locked that, at run itself: an instance whose file was removed by force still holds the folder.
func Held(run string) (Holder, bool, error) {
	if h, held, err := Peek(Path(run)); held || err != nil {
		return h, held, err
	}
	return Peek(run)
}

// Peek returns the holder of the lock at path and whether it is locked. It never waits and keeps nothing. A
// missing file is a free lock. Peek takes a shared lock for a moment; use it only on our own file: NVIDIA's
// script would not try again.
func Peek(path string) (Holder, bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at the driver's lock: %w", err)
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(f), true, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at the driver's lock: %w", err)
	}
	return Holder{}, false, nil // closing drops the shared lock
}

// flock never waits. unix.EWOULDBLOCK means that another process holds a lock that excludes this one.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// lockFile opens a regular file, creates it if necessary, does not truncate it, and locks it; again while the file is
// being replaced. The error is a *HeldError if another process holds it.
func lockFile(path string) (*os.File, error) {
	for range 20 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, err
		}
		if st, serr := f.Stat(); serr != nil || !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		} else if err = flock(f, unix.LOCK_EX); errors.Is(err, unix.EWOULDBLOCK) {
			err = &HeldError{Path: path, Holder: readHolder(f)}
		}
		if err == nil && isSameFile(f, path) {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s was replaced twenty times while it was being locked", path)
}

// lockFolder locks a folder. The error is a *HeldError if another process holds it. On a file system that cannot lock
// folders it returns nil: no instance has this lock there.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err = flock(f, unix.LOCK_EX); err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &HeldError{Path: dir}
	}
	return nil, nil
}

// isSameFile says whether path still leads to the open file.
func isSameFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// overwrite replaces the content in place: a rename would give the name to a new inode, which nobody has
// locked.
func overwrite(f *os.File, content []byte) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err != nil {
		return fmt.Errorf("write the holder into the lock file: %w", err)
	}
	return nil
}

// named is a locked file with its name.
type named struct {
	file **os.File
	path string
}

// replaced returns the locked files whose names lead elsewhere now.
func (l *Lock) replaced() []named {
	all := []named{{&l.own, l.path}, {&l.legacy, l.legacyPath}}
	return slices.DeleteFunc(all, func(f named) bool { return *f.file == nil || isSameFile(*f.file, f.path) })
}

// Lost compares the names with the files that we locked. It returns nil when they match, else an error for each file
// that was removed or replaced (joined, our own file first). k8s-driver-manager removes NVIDIA's file in normal
// operation; Retake repairs that.
func (l *Lock) Lost() error {
	var errs []error
	for _, f := range l.replaced() {
		text := "another program replaced the lock file %s: another driver container may believe that it owns this node; " +
			"find out who with `fuser %[1]s`, and end it"
		if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
			text = "another program removed the lock file %s; it will be made again"
		}
		errs = append(errs, fmt.Errorf(text, f.path))
	}
	return errors.Join(errs...)
}

// Retake creates and locks again the files that Lost reports, where no other process has locked them. It
// keeps the old lock until then. It returns a *HeldError when another process was faster.
func (l *Lock) Retake() error {
	var errs []error
	for _, f := range l.replaced() {
		renewed, err := lockFile(f.path)
		if err != nil {
			errs = append(errs, wrapAttempt(err))
			continue
		}
		(*f.file).Close()
		*f.file = renewed
	}
	if l.own != nil {
		errs = append(errs, l.writeHolder())
	}
	return errors.Join(errs...)
}

// Release empties our own file and drops the locks. It never unlinks our file. It removes NVIDIA's file when
// its name still leads to the file that we locked, because NVIDIA's scripts take the file's existence for a
// running driver. A second call does nothing.
func (l *Lock) Release() error {
	if l.own == nil {
		return nil
	}
	var errs []error
	if isSameFile(l.legacy, l.legacyPath) {
		if err := os.Remove(l.legacyPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("release the driver's lock: %w", err))
		}
	}
	if err := l.own.Truncate(0); err != nil {
		errs = append(errs, fmt.Errorf("release the driver's lock: %w", err))
	}
	l.close()
	l.own, l.legacy, l.folder = nil, nil, nil
	return errors.Join(errs...)
}
