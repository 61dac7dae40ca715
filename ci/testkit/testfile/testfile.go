// Package testfile writes, reads and lists files for tests, and ends the test if that fails.
package testfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Write makes a file and the folders above it, and returns its path. A path that ends in a slash is
// a folder, a text "-> target" makes a symbolic link, and a text that begins with "#!" makes a
// program.
func Write(t require.T, path, text string) string {
	t.Helper()
	target, link := strings.CutPrefix(text, "-> ")
	switch {
	case strings.HasSuffix(path, "/"):
		require.NoError(t, os.MkdirAll(path, 0o755))
	case link:
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Symlink(target, path))
	case strings.HasPrefix(text, "#!"):
		return WriteMode(t, path, text, 0o755)
	default:
		return WriteMode(t, path, text, 0o644)
	}
	return path
}

// WriteMode makes a file with a mode, whatever the umask, and the folders above it, and returns its
// path.
func WriteMode(t require.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	// A child that another test forks now would have the file open for writing, and a program could
	// not start.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// Tree makes files as Write does, name -> text, below a folder, and returns the folder.
func Tree(t require.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		Write(t, dir+"/"+name, text)
	}
	return dir
}

// FS returns a file system of these files, name -> text.
func FS(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// Read returns the content of a file.
func Read(t require.T, path string) string {
	t.Helper()
	return string(require.Value(os.ReadFile(path))(t))
}

// List returns the names in a folder, sorted.
func List(t require.T, dir string) []string {
	t.Helper()
	var names []string
	for _, entry := range require.Value(os.ReadDir(dir))(t) {
		names = append(names, entry.Name())
	}
	return names
}
