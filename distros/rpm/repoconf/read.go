package repoconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

const (
	maxConfig  = 1 << 20 // bytes of one configuration file; redhat.repo of a large subscription has 500 KiB
	maxConfigs = 500     // files in one folder
)

// ReadFile reads a whole file of at most limit bytes.
func ReadFile(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: %w: larger than %d bytes", name, ErrSources, limit)
	}
	return data, nil
}

// ListFiles returns the names of the files in a configuration folder, without hidden ones; none if there is
// no such folder.
func ListFiles(root fs.FS, dir string) ([]string, error) {
	list, err := fs.ReadDir(root, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	if len(list) > maxConfigs {
		return nil, fmt.Errorf("%w: more than %d files in %s", ErrSources, maxConfigs, dir)
	}
	var names []string
	for _, e := range list {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
