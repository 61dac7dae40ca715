package distros

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

const maxOSRelease = 64 << 10 // bytes; real ones are below 1 KiB

// FromOSRelease returns the system of a root file system, by its etc/os-release or, where that is missing,
// usr/lib/os-release. For an unknown system it returns an *UnknownError; for a root without either file, an
// error that wraps fs.ErrNotExist.
func FromOSRelease(root fs.FS) (Distro, error) {
	id, version, err := ReadOSRelease(root)
	if err != nil {
		return nil, err
	}
	for _, d := range All() {
		if d.Matches(id, version) {
			return d, nil
		}
	}
	return nil, &UnknownError{ID: id + version, Nearest: Nearest(id+version, ids())}
}

// ReadOSRelease returns ID and VERSION_ID of etc/os-release or, where that is missing, of usr/lib/os-release.
// A root without either file wraps fs.ErrNotExist.
func ReadOSRelease(root fs.FS) (id, version string, err error) {
	var missing error
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("find out which operating system this is: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxOSRelease))
		_ = f.Close() // opened for reading
		if err != nil {
			return "", "", fmt.Errorf("find out which operating system this is: read %s: %w", name, err)
		}
		if id, version = parseOSRelease(string(text)); id == "" {
			return "", "", fmt.Errorf("find out which operating system this is: %s has no line ID=", name)
		}
		return id, version, nil
	}
	return "", "", fmt.Errorf("find out which operating system this is: it has neither etc/os-release nor usr/lib/os-release: %w", missing)
}

// parseOSRelease parses the format of os-release(5): shell assignments, of which the last one of a name
// counts. Only the outer quotes matter, because no system's ID or VERSION_ID has a character that needs more
// quoting.
func parseOSRelease(text string) (id, version string) {
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
	return id, version
}

// minorDropped are the systems whose tags have only the major version: nodepool.go of the GPU operator.
var minorDropped = []string{"rhel", "rocky", "ol"}

// OSTag returns what the GPU operator appends to the tags of driver images for nodes with this ID and
// VERSION_ID in their os-release: "rhel9" for 9.4, "almalinux9.4", "ubuntu24.04". Where it differs from the
// ID of the system, the image needs it as an additional tag.
func OSTag(id, versionID string) string {
	if slices.Contains(minorDropped, id) {
		versionID, _, _ = strings.Cut(versionID, ".")
	}
	return id + versionID
}

// Userland returns the system whose base, packages and folders the images of d have. It is d itself unless d
// has no packages (Flatcar): such images are based on another system and share only the kernel with d.
func Userland(d Distro) Distro {
	if h, ok := d.(packageless); ok {
		return h.Distro
	}
	return d
}
