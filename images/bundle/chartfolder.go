package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

// readFolder reads the files of a chart, sorted by name, without those that .helmignore names. Links are
// refused: they could lead anywhere.
func readFolder(dir string) ([]chartFile, error) {
	ignored, err := readIgnore(filepath.Join(dir, ".helmignore"))
	if err != nil {
		return nil, err
	}
	var all []chartFile
	total := 0
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case ignored.match(name, d.IsDir()) && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || ignored.match(name, false):
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", name)
		}
		content, err := bounded.File(filepath.Join(dir, name), maxChart)
		if total += len(content); total > maxChart || len(all) >= maxFiles {
			return fmt.Errorf("it has more than %d bytes or %d files", maxChart, maxFiles)
		}
		all = append(all, chartFile{name, content})
		return err
	})
	return all, err
}

// patterns are those of .helmignore: a name, a path, with * and ?; a slash at the end means folders.
type patterns []string

func readIgnore(name string) (patterns, error) {
	raw, err := bounded.File(name, maxChart)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all patterns
	for line := range strings.Lines(string(raw)) {
		p := strings.TrimSpace(line)
		if p == "" || strings.HasPrefix(p, "#") {
			continue
		}
		if _, err := path.Match(p, "x"); err != nil || strings.HasPrefix(p, "!") {
			return nil, fmt.Errorf(".helmignore: the pattern %q is not supported: give names and paths with * and ?", p)
		}
		all = append(all, p)
	}
	return all, nil
}

func (all patterns) match(name string, dir bool) bool {
	for _, p := range all {
		only := strings.HasSuffix(p, "/")
		p = strings.TrimSuffix(p, "/")
		subject := path.Base(name)
		if strings.Contains(p, "/") {
			subject, p = name, strings.TrimPrefix(p, "/")
		}
		if ok, _ := path.Match(p, subject); ok && (dir || !only) { // the pattern was checked when it was read
			return true
		}
	}
	return false
}

// pack makes the archive of a chart: below a folder of its name, all of 1970.
func pack(name string, files []chartFile) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + f.name, Size: int64(len(f.content)), Mode: 0o644, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
