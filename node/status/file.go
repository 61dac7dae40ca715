package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

const fileName = "driver-status.json"

// RootPath returns the path at which the driver root is served, beside the status in the folder
// that all instances share.
func RootPath(run string) string { return filepath.Join(run, "driver") }

// Read reads the status in the folder that all instances share. The error is fs.ErrNotExist if
// there has been no driver since the boot.
func Read(run string) (Snapshot, error) {
	path := filepath.Join(run, fileName)
	st, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, fmt.Errorf("read the driver's status: %w", err)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf(
			"the driver's status %s cannot be used: %w; a driver container replaces it when it starts; if none does, remove it",
			path,
			err,
		)
	}
	return st, nil
}

func readFile(path string) (Snapshot, error) {
	data, err := content(path)
	if err != nil {
		return Snapshot{}, err
	}
	return parse(data)
}

// content reads the file without waiting for a writer of a pipe, and follows no link: anybody on
// the node who can write to the folder can have put it there.
func content(path string) ([]byte, error) {
	const limit = 1 << 20
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a link")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no regular file (%s)", info.Mode().Type())
	}
	return bounded.Read(f, limit)
}

// Storage stores a snapshot beyond the life of its instance; it is a Folder, except in tests.
type Storage interface {
	Load() (Snapshot, error)
	Save(st Snapshot) error
	Remove() error // fs.ErrNotExist if there is none
}

// Folder stores the status in the file of this folder.
type Folder string

// Load reads the file.
func (f Folder) Load() (Snapshot, error) { return Read(string(f)) }

// Remove removes the file.
func (f Folder) Remove() error { return os.Remove(filepath.Join(string(f), fileName)) }

// Save replaces the whole file.
func (f Folder) Save(st Snapshot) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(string(f), fileName), append(data, '\n'))
}

// writeFile replaces a file that everybody on the node may read. A link, pipe or empty folder of
// that name is removed. A folder with content may be needed by its owner: it gets another name.
func writeFile(path string, data []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() &&
		os.Remove(path) != nil {
		if err := os.Rename(path, path+".replaced"); err != nil {
			return fmt.Errorf("%s is no regular file (%s): %w", path, info.Mode().Type(), err)
		}
	}
	err := atomicwriter.WriteFile(path, data, 0o644)
	// its name is another one each time, and nobody looks for it
	temporary, ok := errors.AsType[*fs.PathError](err)
	if ok {
		return fmt.Errorf("write %s: %w", path, temporary.Err)
	}
	return err
}

// unfinished returns the pattern of the temporary names that writeFile uses.
func unfinished(path string) string {
	return filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"*")
}
