package batch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/images/matrix"
)

// CheckFolder refuses a file to write that has no folder, before minutes are spent on what would be in it.
func CheckFolder(flag, file string) error {
	info, err := os.Stat(filepath.Dir(file))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", filepath.Dir(file))
	}
	if err != nil {
		return matrix.RequestErrorf("%s %s: %w", flag, file, err)
	}
	return nil
}

// WriteFile puts a new text in the place of a file, whole or not at all. check, if there is one, is called
// right before, and its error keeps the file as it is.
func WriteFile(file string, text []byte, mode os.FileMode, check func() error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	return os.Rename(tmp.Name(), file)
}

// ReplaceText puts a new text in the place of an old one. A change that somebody else made since the old text
// was read is not overwritten, and a link stays a link.
func ReplaceText(file string, old, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return WriteFile(file, text, info.Mode().Perm(), func() error {
		if now, err := os.ReadFile(file); err != nil || string(now) != string(old) {
			return errors.Join(errors.New("it was changed meanwhile: try again"), err)
		}
		return nil
	})
}
