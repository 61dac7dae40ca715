package layer

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/workdir"
)

// WorkFolder makes an empty folder in the cache for files that another program opens by name.
// remove deletes it. The next call removes the folders of builders that were killed; a folder that
// cannot be removed then is tried again by the call after it.
func WorkFolder(store *fetch.Store) (dir string, remove func() error, err error) {
	const prefix = "modules-"
	parent := filepath.Join(store.Dir(), "work")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, fmt.Errorf("make room for modules: %w", err)
	}
	_ = workdir.Sweep(parent, prefix)
	d, err := workdir.New(parent, prefix)
	if err != nil {
		return "", nil, fmt.Errorf("make room for modules: %w", err)
	}
	return d.Path, d.Remove, nil
}
