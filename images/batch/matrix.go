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
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/patch"
	"github.com/driver-container/driver-container/images/releases"
)

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// Written is a matrix as it is written.
type Written struct {
	*matrix.Matrix
	Text []byte
	// contents of the patches and keys that it names, by their paths beside it
	Files map[string]string

	name    string
	carried fs.FS // the folder of its patches; nil: that of the file
}

func open(file string) (w Written, err error) {
	w.name = file
	w.Text, err = textfile.Read(file, matrix.MaxSize)
	if err != nil {
		return w, failure.Errorf(failure.Usage, "read the matrix: %w", err)
	}
	return w, nil
}

// embeddedMatrix is the matrix in the program.
func embeddedMatrix(text []byte, carried fs.FS) Written {
	return Written{Text: text, name: "matrix.yaml (embedded)", carried: carried}
}

// parse parses the matrix and reads the files that it names.
func (w *Written) parse() (err error) {
	w.Files = map[string]string{}
	reading := func(read func(file string) ([]byte, error)) func(file string) (string, error) {
		return func(file string) (string, error) {
			text, err := read(file)
			w.Files[file] = string(text)
			return w.Files[file], err
		}
	}
	var from matrix.Files
	carried := w.carried
	if carried == nil {
		root, err := os.OpenRoot(filepath.Dir(w.name))
		if err != nil {
			return failure.Errorf(failure.Usage, "open the folder of the matrix: %w", err)
		}
		defer func() { _ = root.Close() }()
		carried = root.FS() // follows no link out of it
		from.Key = reading(func(file string) ([]byte, error) {
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(w.name), file)
			}
			return bounded.File(file, maxKeyFile)
		})
	}
	from.Patch = reading(
		func(file string) ([]byte, error) { return bounded.FSFile(carried, file, patch.MaxBytes) },
	)
	w.Matrix, err = matrix.ParseWithFiles(w.name, w.Text, from)
	return err
}

// ReadMatrix reads the matrix that --matrix names, or else matrix.yaml in the current folder, or
// else the embedded one, whose patches are in the folder carried.
func ReadMatrix(file string, embedded []byte, carried fs.FS) (*matrix.Matrix, error) {
	w, err := open(cmp.Or(file, "matrix.yaml"))
	if file == "" && errors.Is(err, fs.ErrNotExist) {
		w = embeddedMatrix(embedded, carried)
		err = nil
	}
	if err == nil {
		err = w.parse()
	}
	return w.Matrix, err
}

// MatrixFiles returns the files that a matrix names, patches and keys of repositories, as the
// matrix writes their paths: relative to its folder, except absolute paths. ok is false for a file
// that is no matrix: without its keys. It may still have errors.
func MatrixFiles(file string) (names []string, ok bool, err error) {
	if ext := filepath.Ext(file); ext != ".yaml" && ext != ".yml" {
		return nil, false, nil
	}
	w, err := open(file)
	if err != nil {
		return nil, false, err
	}
	var keys struct{ Systems, Drivers yaml.Node }
	if yaml.Unmarshal(w.Text, &keys) != nil || keys.Systems.IsZero() || keys.Drivers.IsZero() {
		return nil, false, nil //nolint:nilerr // what is no YAML is no matrix
	}
	err = w.parse()
	return slices.Sorted(maps.Keys(w.Files)), true, err
}

// Trim cuts a matrix down to the systems and drivers of a selection. file "" is the embedded
// matrix. The files of the result are those that lie beside it.
func Trim(
	file string,
	embedded []byte,
	carried fs.FS,
	s matrix.Selection,
	note func(...string),
) (w Written, err error) {
	w = embeddedMatrix(embedded, carried)
	if file != "" {
		w, err = open(file)
		if err != nil {
			return w, err
		}
	}
	err = w.parse()
	if err != nil {
		return w, err
	}
	note(releases.Resolve(w.Matrix, s.Drivers)...)
	s.All, s.Archs = true, Archs()
	targets, err := w.Select(s)
	if len(targets) == 0 {
		for _, no := range w.Impossible(s) {
			err = errors.Join(err, no)
		}
		return w, failure.Of(failure.Usage, err)
	}
	w.Text, err = matrix.Keep(w.name, w.Text, s.Systems, s.Drivers)
	if err != nil {
		return w, failure.Of(failure.Usage, err)
	}
	err = w.parse()
	maps.DeleteFunc(w.Files, func(name, _ string) bool { return filepath.IsAbs(name) })
	return w, err
}
