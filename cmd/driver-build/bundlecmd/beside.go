package bundlecmd

import (
	"fmt"
	"path/filepath"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/gathering"
)

// addBeside takes along the patches and the keys of repositories that a matrix of --file names: without them
// the site cannot read it. They come to the same place beside it. A key that is elsewhere stays out, with a
// warning.
func (o *createFlags) addBeside(a *session.App) error {
	for _, file := range o.Files {
		names, ok, err := batch.MatrixFiles(file)
		if err != nil {
			return session.Usagef("--file %s: %w", file, err)
		}
		if !ok {
			continue
		}
		for _, name := range names {
			if title := filepath.ToSlash(name); bundle.CheckPath(bundle.Inputs, title) == nil {
				o.Beside = append(o.Beside, gathering.Beside{Path: filepath.Join(filepath.Dir(file), name), Title: title})
				continue
			}
			fmt.Fprintf(a.Stderr, "warning: %s names %s, which the import could not put beside it: the site needs this file at the same place\n", file, name)
		}
	}
	return nil
}
