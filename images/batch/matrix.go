package batch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/images/matrix"
)

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// ReadMatrix reads the matrix that --matrix names, or else matrix.yaml in the current folder, or else the
// embedded one.
func ReadMatrix(file string, embedded []byte) (*matrix.Matrix, error) {
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, matrix.RequestErrorf("--matrix: %w", err)
		}
		return parseMatrix(file, data)
	}
	data, err := os.ReadFile("matrix.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return matrix.Parse("matrix.yaml (embedded)", embedded)
	}
	if err != nil {
		return nil, matrix.RequestErrorf("read the matrix: %w", err)
	}
	return parseMatrix("matrix.yaml", data)
}

// parseMatrix reads a matrix, and the keys of repositories that it names by file, relative to its own folder.
func parseMatrix(name string, data []byte) (*matrix.Matrix, error) {
	return matrix.ParseWithKeys(name, data, func(file string) (string, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(name), file)
		}
		st, err := os.Stat(file)
		switch {
		case err != nil:
			return "", err
		case !st.Mode().IsRegular():
			return "", fmt.Errorf("%s is no regular file", file)
		case st.Size() > maxKeyFile:
			return "", fmt.Errorf("%s has %d bytes, which is no key", file, st.Size())
		}
		key, err := os.ReadFile(file)
		return string(key), err
	})
}
