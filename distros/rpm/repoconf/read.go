package repoconf

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	// bytes of one configuration file; redhat.repo of a large subscription has 500 KiB
	maxConfig  = 1 << 20
	maxConfigs = 500 // files in one folder
)

// ReadFile reads a whole file of at most limit bytes.
func ReadFile(root fs.FS, name string, limit int64) ([]byte, error) {
	data, err := bounded.FSFile(root, name, limit)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = distros.BadSources("%w", err)
	}
	return data, err
}

// ListFiles returns the names of the files in a configuration folder, without hidden ones; none if
// there is no such folder.
func ListFiles(root fs.FS, dir string) ([]string, error) {
	list, err := fs.ReadDir(root, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	if len(list) > maxConfigs {
		return nil, distros.BadSources("more than %d files in %s", maxConfigs, dir)
	}
	var names []string
	for _, e := range list {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
