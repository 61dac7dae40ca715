package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

const fileName = "driver-status.json"

// RootPath returns the path at which the driver root is served, beside the status in the folder that all
// instances share.
func RootPath(run string) string { return filepath.Join(run, "driver") }

// Read reads the status in the folder that all instances share. The error is fs.ErrNotExist if there has been
// no driver since the boot.
func Read(run string) (Snapshot, error) {
	const limit = 1 << 20
	var st Snapshot
	path := filepath.Join(run, fileName)
	f, err := os.Open(path)
	if err != nil {
		return st, fmt.Errorf("read the driver's status: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	if err == nil {
		err = json.NewDecoder(f).Decode(&st)
	}
	if err == nil && st.Schema != Schema {
		err = fmt.Errorf("%s has schema %d, this program knows %d: driver-entrypoint of another version wrote it; use nvidia-driver of its image", path, st.Schema, Schema)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return Snapshot{}, fmt.Errorf("read the driver's status: %w", err)
	}
	return st, nil
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

// writeFile replaces a file that everybody on the node may read.
func writeFile(path string, data []byte) error { return atomicwriter.WriteFile(path, data, 0o644) }

// unfinished returns the pattern of the temporary names that writeFile uses.
func unfinished(path string) string {
	return filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"*")
}
