package batch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"

	"github.com/driver-container/driver-container/images/patch"
	"github.com/driver-container/driver-container/images/releases"
)

// embeddedName is what messages call the matrix in the program.
const embeddedName = "matrix.yaml (embedded)"

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// ReadMatrix reads the matrix that --matrix names, or else matrix.yaml in the current folder, or else the
// embedded one, whose patches are in the folder carried.
func ReadMatrix(file string, embedded []byte, carried fs.FS) (*matrix.Matrix, error) {
	if file != "" {
		data, err := bounded.File(file, matrix.MaxSize)
		if err != nil {
			return nil, failure.Errorf(failure.Usage, "--matrix: %w", err)
		}
		return parseMatrix(file, data)
	}
	data, err := bounded.File("matrix.yaml", matrix.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return matrix.ParseWithFiles(embeddedName, embedded, matrix.Files{Patch: patchReader(carried)})
	}
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "read the matrix: %w", err)
	}
	return parseMatrix("matrix.yaml", data)
}

// parseMatrix reads a matrix and the files that it names: keys of repositories relative to its own folder,
// patches in that folder.
func parseMatrix(name string, data []byte) (*matrix.Matrix, error) {
	return parseNamed(name, data, func(string, string) {})
}

// MatrixFiles returns the files that a matrix names, patches and keys of repositories, as the matrix writes
// their paths: relative to its folder, except absolute paths. ok is false for a file that is no matrix.
func MatrixFiles(file string) (names []string, ok bool, err error) {
	if ext := filepath.Ext(file); ext != ".yaml" && ext != ".yml" {
		return nil, false, nil
	}
	data, err := bounded.File(file, matrix.MaxSize)
	if err != nil {
		return nil, false, err
	}
	if !looksLikeMatrix(data) {
		return nil, false, nil
	}
	_, err = parseNamed(file, data, func(name, _ string) { names = append(names, name) })
	slices.Sort(names)
	return slices.Compact(names), true, err
}

// Trim cuts a matrix down to the systems and drivers of a selection. files are those that it still names, by
// their paths beside it. file "" is the embedded matrix.
func Trim(file string, embedded []byte, carried fs.FS, s matrix.Selection, note func(...string)) (m *matrix.Matrix, text []byte, files map[string]string, err error) {
	name, text := embeddedName, embedded
	found := func(name, content string) {
		if !filepath.IsAbs(name) {
			files[name] = content
		}
	}
	parse := func(text []byte) (*matrix.Matrix, error) {
		files = map[string]string{}
		if file != "" {
			return parseNamed(file, text, found)
		}
		return matrix.ParseWithFiles(name, text, matrix.Files{Patch: noting(patchReader(carried), found)})
	}
	if file != "" {
		name = file
		if text, err = bounded.File(file, matrix.MaxSize); err != nil {
			return nil, nil, nil, failure.Errorf(failure.Usage, "--matrix: %w", err)
		}
	}
	if m, err = parse(text); err != nil {
		return nil, nil, nil, err
	}
	note(releases.Resolve(m, s.Drivers)...)
	s.All, s.Archs = true, Archs()
	targets, err := m.Select(s)
	if len(targets) == 0 {
		for _, no := range m.Impossible(s) {
			err = errors.Join(err, no)
		}
		return nil, nil, nil, failure.Of(failure.Usage, err)
	}
	if text, err = matrix.Keep(name, text, s.Systems, s.Drivers); err != nil {
		return nil, nil, nil, failure.Of(failure.Usage, err)
	}
	m, err = parse(text)
	return m, text, files, err
}

// noting calls found with what was read.
func noting(read func(file string) (string, error), found func(file, text string)) func(file string) (string, error) {
	return func(file string) (string, error) {
		text, err := read(file)
		found(file, text)
		return text, err
	}
}

// looksLikeMatrix reports whether a file has the keys of a matrix. It may still have errors.
func looksLikeMatrix(data []byte) bool {
	var keys struct{ Systems, Drivers yaml.Node }
	return yaml.Unmarshal(data, &keys) == nil && !keys.Systems.IsZero() && !keys.Drivers.IsZero()
}

// parseNamed calls found for each file that the matrix names.
func parseNamed(name string, data []byte, found func(file, text string)) (*matrix.Matrix, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, failure.Errorf(failure.Usage, "open the folder of the matrix: %w", err)
	}
	defer func() { _ = root.Close() }()
	key := func(file string) (string, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(name), file)
		}
		return bounded.Text(file, maxKeyFile)
	}
	return matrix.ParseWithFiles(name, data, matrix.Files{Patch: noting(patchReader(root.FS()), found), Key: noting(key, found)})
}

// patchReader reads patches in a folder, and follows no link out of it.
func patchReader(folder fs.FS) func(file string) (string, error) {
	return func(file string) (string, error) {
		text, err := bounded.FSFile(folder, file, patch.MaxBytes)
		return string(text), err
	}
}
