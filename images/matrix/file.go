package matrix

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/patch"
)

// maxKeyFile bounds the file of a repository's key; real ones have some kilobytes.
const maxKeyFile = 1 << 20

// File is a matrix as it is written.
type File struct {
	Matrix *Matrix
	Text   []byte
	// contents of the patches and keys that it names, by their paths beside it
	Files map[string]string

	name    string
	patches fs.FS // the folder of its patches; nil: that of the file
}

// readText reads a file that may be a matrix.
func readText(file string) (f File, err error) {
	f.name = file
	f.Text, err = textfile.Read(file, MaxSize)
	if err != nil {
		return f, failure.Errorf(failure.Usage, "read the matrix: %w", err)
	}
	return f, nil
}

// OpenFile reads a matrix and the files that it names. "" is the embedded one, whose patches are in
// a folder of their own.
func OpenFile(file string, embedded []byte, patches fs.FS) (f File, err error) {
	f = File{Text: embedded, name: "matrix.yaml (embedded)", patches: patches}
	if file != "" {
		f, err = readText(file)
		if err != nil {
			return f, err
		}
	}
	return f, f.parse()
}

// ReadFile reads the matrix of a file, or else of matrix.yaml in the current folder, or else the
// embedded one, whose patches are in a folder of their own.
func ReadFile(file string, embedded []byte, patches fs.FS) (*Matrix, error) {
	f, err := OpenFile(cmp.Or(file, "matrix.yaml"), embedded, patches)
	if file == "" && f.Text == nil && errors.Is(err, fs.ErrNotExist) {
		f, err = OpenFile("", embedded, patches)
	}
	return f.Matrix, err
}

// parse parses the matrix and reads the files that it names.
func (f *File) parse() (err error) {
	f.Files = map[string]string{}
	reading := func(read func(file string) ([]byte, error)) func(file string) (string, error) {
		return func(file string) (string, error) {
			text, err := read(file)
			f.Files[file] = string(text)
			return f.Files[file], err
		}
	}
	var from Files
	patches := f.patches
	if patches == nil {
		root, err := os.OpenRoot(filepath.Dir(f.name))
		if err != nil {
			return failure.Errorf(failure.Usage, "open the folder of the matrix: %w", err)
		}
		defer func() { _ = root.Close() }()
		patches = root.FS() // follows no link out of it
		from.Key = reading(func(file string) ([]byte, error) {
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(f.name), file)
			}
			return bounded.File(file, maxKeyFile)
		})
	}
	from.Patch = reading(func(file string) ([]byte, error) {
		return bounded.FSFile(patches, file, patch.MaxBytes)
	})
	f.Matrix, err = ParseWithFiles(f.name, f.Text, from)
	return err
}

// NamedFiles returns the files that a matrix names, patches and keys of repositories, as the matrix
// writes their paths: relative to its folder, except absolute paths. There are none for a file that
// is no matrix: without its keys.
func NamedFiles(file string) ([]string, error) {
	ext := filepath.Ext(file)
	if ext != ".yaml" && ext != ".yml" {
		return nil, nil
	}
	f, err := readText(file)
	if err != nil {
		return nil, err
	}
	var keys struct{ Systems, Drivers yaml.Node }
	if yaml.Unmarshal(f.Text, &keys) != nil || keys.Systems.IsZero() || keys.Drivers.IsZero() {
		return nil, nil //nolint:nilerr // what is no YAML is no matrix
	}
	err = f.parse()
	return slices.Sorted(maps.Keys(f.Files)), err
}

// Trim returns the matrix cut down to the systems and drivers of a selection. The files of the
// result are those that lie beside it.
func (f File) Trim(s Selection) (trimmed File, err error) {
	s.All = true
	s.Archs = Archs()
	targets, err := f.Matrix.Select(s)
	if len(targets) == 0 {
		for _, no := range f.Matrix.Impossible(s) {
			err = errors.Join(err, no)
		}
		return f, failure.Of(failure.Usage, err)
	}
	f.Text, err = Keep(f.name, f.Text, s.Systems, s.Drivers)
	if err != nil {
		return f, failure.Of(failure.Usage, err)
	}
	err = f.parse()
	maps.DeleteFunc(f.Files, func(name, _ string) bool { return filepath.IsAbs(name) })
	return f, err
}

// Write writes the matrix, as matrix.yaml, and the files that it names into a folder, and returns
// their paths. A file that is there stays; one with other content is an error, and nothing is
// written then.
func (f File) Write(dir string) (written []string, err error) {
	files := map[string]string{"matrix.yaml": string(f.Text)}
	maps.Copy(files, f.Files)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if !filepath.IsLocal(name) {
			return nil, failure.Errorf(
				failure.Usage,
				"%s names %s, which is not below its folder: give a matrix with its files beside it",
				f.name,
				name,
			)
		}
		path := filepath.Join(dir, name)
		there, err := bounded.File(path, MaxSize)
		if err == nil && string(there) != files[name] {
			return nil, failure.Errorf(
				failure.Usage,
				"%s is there already, with other content: remove it, or give --output DIR",
				path,
			)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, failure.Errorf(failure.Usage, "--output: %w", err)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		err = os.MkdirAll(filepath.Dir(path), 0o755)
		if err != nil {
			return written, failure.Errorf(failure.Usage, "--output: %w", err)
		}
		err = outfile.Replace(path, func(w io.Writer) error {
			_, err := io.WriteString(w, files[name])
			return err
		})
		if err != nil {
			return written, fmt.Errorf("write %s: %w", path, err)
		}
		written = append(written, path)
	}
	return written, nil
}
