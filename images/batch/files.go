package batch

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/outfile"
)

// CheckFile refuses a file that cannot be written, before minutes are spent on its content. flag names it in
// messages.
func CheckFile(flag, file string) error {
	if err := outfile.Check(file); err != nil {
		return matrix.RequestErrorf("%s: %w", flag, err)
	}
	return nil
}

// CheckReplaceable refuses a file whose text cannot be replaced by [ReplaceText].
func CheckReplaceable(flag, file string) error {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		return matrix.RequestErrorf("%s: %s is no regular file, and only such a file can be edited", flag, file)
	}
	return CheckFile(flag, file)
}

// ReplaceText puts a new text in the place of an old one. A change that was made since the old text was read
// is not overwritten, and a link stays a link.
func ReplaceText(file string, old, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return err
	}
	return outfile.Replace(file, func(w io.Writer) error {
		if _, err := w.Write(text); err != nil {
			return err
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(old) {
			return errors.Join(errors.New("it was changed meanwhile: try again"), err)
		}
		return nil
	})
}
