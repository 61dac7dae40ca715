// Package confdir reads the configuration files of a root file system, alone or those of a folder.
// It knows no format.
package confdir

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxFile  = 1 << 20 // bytes of one file; redhat.repo of a large subscription has 500 KiB
	maxFiles = 500     // in one folder
)

// Read returns the content of a file. One that is too large is distros.ErrSources.
func Read(root fs.FS, name string) ([]byte, error) {
	data, err := bounded.FSFile(root, name, maxFile)
	if errors.Is(err, bounded.ErrTooLarge) {
		return nil, distros.BadSources("%w", err)
	}
	return data, err
}

// Optional is Read for a file that may be missing, and then has no content.
func Optional(root fs.FS, name string) ([]byte, error) {
	data, err := Read(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// List returns the paths of the files in a folder that have one of the endings, without hidden ones;
// without endings, those of all files. There are none if there is no such folder, and too many are
// distros.ErrSources.
func List(root fs.FS, dir string, endings ...string) ([]string, error) {
	all, err := fs.ReadDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(all) > maxFiles {
		return nil, distros.BadSources("more than %d files in %s", maxFiles, dir)
	}
	var names []string
	for _, e := range all {
		name := e.Name()
		wanted := len(endings) == 0 || slices.Contains(endings, path.Ext(name))
		if wanted && !e.IsDir() && !strings.HasPrefix(name, ".") {
			names = append(names, path.Join(dir, name))
		}
	}
	return names, nil
}

// Each passes the files that List returns to do.
func Each(root fs.FS, dir, ending string, do func(name string, data []byte) error) error {
	names, err := List(root, dir, ending)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := Read(root, name)
		if err != nil {
			return err
		}
		err = do(name, data)
		if err != nil {
			return err
		}
	}
	return nil
}
