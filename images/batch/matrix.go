package batch

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
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

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// source is a matrix as it is written.
type source struct {
	name    string
	text    []byte
	carried fs.FS // the folder of its patches; nil: that of the file
}

// embeddedSource is the matrix in the program.
func embeddedSource(text []byte, carried fs.FS) source {
	return source{"matrix.yaml (embedded)", text, carried}
}

// parse parses the matrix and reads the files that it names, patches and keys of repositories. files has their contents by their
// paths as the matrix writes them: relative to its folder, except absolute paths of keys.
func (s source) parse() (m *matrix.Matrix, files map[string]string, err error) {
	files = map[string]string{}
	reading := func(read func(file string) ([]byte, error)) func(file string) (string, error) {
		return func(file string) (string, error) {
			text, err := read(file)
			files[file] = string(text)
			return files[file], err
		}
	}
	var from matrix.Files
	if s.carried == nil {
		root, err := os.OpenRoot(filepath.Dir(s.name))
		if err != nil {
			return nil, nil, failure.Errorf(failure.Usage, "open the folder of the matrix: %w", err)
		}
		defer func() { _ = root.Close() }()
		s.carried = root.FS() // follows no link out of it
		from.Key = reading(func(file string) ([]byte, error) {
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(s.name), file)
			}
			return bounded.File(file, maxKeyFile)
		})
	}
	from.Patch = reading(func(file string) ([]byte, error) { return bounded.FSFile(s.carried, file, patch.MaxBytes) })
	m, err = matrix.ParseWithFiles(s.name, s.text, from)
	return m, files, err
}

// ReadMatrix reads the matrix that --matrix names, or else matrix.yaml in the current folder, or else the embedded one, whose
// patches are in the folder carried.
func ReadMatrix(file string, embedded []byte, carried fs.FS) (*matrix.Matrix, error) {
	s, err := open(cmp.Or(file, "matrix.yaml"))
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		s, err = embeddedSource(embedded, carried), nil
	}
	if err != nil {
		return nil, err
	}
	m, _, err := s.parse()
	return m, err
}

func open(file string) (source, error) {
	text, err := bounded.File(file, matrix.MaxSize)
	if err != nil {
		return source{}, failure.Errorf(failure.Usage, "read the matrix: %w", err)
	}
	return source{name: file, text: text}, nil
}

// MatrixFiles returns the files that a matrix names, patches and keys of repositories, as the matrix writes their paths: relative
// to its folder, except absolute paths. ok is false for a file that is no matrix: without its keys. It may still have errors.
func MatrixFiles(file string) (names []string, ok bool, err error) {
	if ext := filepath.Ext(file); ext != ".yaml" && ext != ".yml" {
		return nil, false, nil
	}
	text, err := bounded.File(file, matrix.MaxSize)
	if err != nil {
		return nil, false, err
	}
	var keys struct{ Systems, Drivers yaml.Node }
	if yaml.Unmarshal(text, &keys) != nil || keys.Systems.IsZero() || keys.Drivers.IsZero() {
		return nil, false, nil //nolint:nilerr // what is no YAML is no matrix
	}
	_, files, err := source{name: file, text: text}.parse()
	return slices.Sorted(maps.Keys(files)), true, err
}

// Trim cuts a matrix down to the systems and drivers of a selection. files are those that it still names, by their paths beside
// it. file "" is the embedded matrix.
func Trim(file string, embedded []byte, carried fs.FS, s matrix.Selection, note func(...string)) (m *matrix.Matrix, text []byte, files map[string]string, err error) {
	from := embeddedSource(embedded, carried)
	if file != "" {
		if from, err = open(file); err != nil {
			return nil, nil, nil, err
		}
	}
	if m, _, err = from.parse(); err != nil {
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
	if from.text, err = matrix.Keep(from.name, from.text, s.Systems, s.Drivers); err != nil {
		return nil, nil, nil, failure.Of(failure.Usage, err)
	}
	m, files, err = from.parse()
	maps.DeleteFunc(files, func(name, _ string) bool { return filepath.IsAbs(name) })
	return m, from.text, files, err
}
