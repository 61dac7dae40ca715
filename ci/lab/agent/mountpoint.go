package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// mostLinks is how many symbolic links a path may go through, as in the kernel.
const mostLinks = 40

// mountPoint returns the path of a mount point below a root, without symbolic links, and makes what is
// missing. It follows the links of an image as its own programs do, never out of the root: /var/run is often
// a link to /run.
func mountPoint(root string, b wire.Bind) (string, error) {
	at, links := "/", 0
	rest := strings.Split(b.Guest, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name) // "/.." is "/"
		path := filepath.Join(root, next)
		st, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && b.File && len(rest) == 0:
			err = os.WriteFile(path, nil, 0o644)
		case errors.Is(err, fs.ErrNotExist):
			err = os.Mkdir(path, 0o755)
		case err == nil && st.Mode()&fs.ModeSymlink != 0:
			var target string
			if target, err = os.Readlink(path); filepath.IsAbs(target) {
				at = "/"
			}
			next, rest = at, append(strings.Split(target, "/"), rest...)
			if links++; links > mostLinks {
				err = fmt.Errorf("more than %d symbolic links", mostLinks)
			}
		}
		if err != nil {
			return "", err
		}
		at = next
	}
	return filepath.Join(root, at), nil
}
