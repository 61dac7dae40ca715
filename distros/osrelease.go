package distros

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

const maxOSRelease = 64 << 10 // bytes; real ones are below 1 KiB

// FromOSRelease tells which system a root file system is, by its etc/os-release or, where that is missing,
// usr/lib/os-release. A system that is not known is an *UnknownError; a root without either file wraps fs.ErrNotExist.
func FromOSRelease(root fs.FS) (Distro, error) {
	var missing error
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find out which operating system this is: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxOSRelease))
		_ = f.Close() // opened for reading
		if err != nil {
			return nil, fmt.Errorf("find out which operating system this is: read %s: %w", name, err)
		}
		return fromOSRelease(name, string(text))
	}
	return nil, fmt.Errorf("find out which operating system this is: it has neither etc/os-release nor usr/lib/os-release: %w", missing)
}

// fromOSRelease reads the format of os-release(5): shell assignments, the last of a name counts. Of their quoting only
// the outer marks matter, because no system's ID or VERSION_ID has a character that needs more.
func fromOSRelease(name, text string) (Distro, error) {
	var id, version string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	if id == "" {
		return nil, fmt.Errorf("find out which operating system this is: %s has no line ID=", name)
	}
	for _, d := range All() {
		if i, v := d.OSRelease(); i == id && v == version {
			return d, nil
		}
	}
	return nil, &UnknownError{ID: id + version, Nearest: Nearest(id+version, ids())}
}
