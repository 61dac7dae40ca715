package outfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CheckEdit says why Edit cannot change a file that exists.
func CheckEdit(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, and only such a file can be edited", path)
	}
	return Check(path)
}

// Edit puts a new text in the place of an old one. A change that was made since the old text was read is not
// overwritten, and a link stays a link.
func Edit(path string, old, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	return Replace(path, func(w io.Writer) error {
		if _, err := w.Write(text); err != nil {
			return err
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != string(old) {
			return errors.Join(errors.New("it was changed meanwhile: try again"), err)
		}
		return nil
	})
}
