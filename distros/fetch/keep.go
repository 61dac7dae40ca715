package fetch

import (
	"os"
	"path/filepath"
)

// WriteFile replaces a small file beside the content as a whole: temporary name, fsync, rename. name is its
// path below the folder of the store.
func (s *Store) WriteFile(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return replaceFile(path, data)
}
