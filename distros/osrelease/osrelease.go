// Package osrelease reads how a system names itself: the file os-release, the text that kubelet reports, the
// names in image tags. It also knows the systems for which no driver image can be made. It has no data of a
// system that images are made for; that is in package distros.
package osrelease

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

const maxFile = 64 << 10 // bytes; real ones are below 1 KiB

// Files returns where a root file system has the file os-release; the first one that exists counts.
func Files() []string { return []string{"etc/os-release", "usr/lib/os-release"} }

// System returns the system of a root file system, by its etc/os-release or, where that is missing,
// usr/lib/os-release. The error for a root without either file wraps
// fs.ErrNotExist.
func System(root fs.FS) (distros.Distro, error) {
	id, version, err := Read(root)
	if err != nil {
		return nil, err
	}
	return distros.FromIDs(id, version)
}

// Read returns ID and VERSION_ID of etc/os-release or, where that is missing, of usr/lib/os-release.
// A root without either file wraps fs.ErrNotExist.
func Read(root fs.FS) (id, version string, err error) {
	var missing error
	for _, name := range Files() {
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("find out which operating system this is: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxFile))
		_ = f.Close() // opened for reading
		if err != nil {
			return "", "", fmt.Errorf("find out which operating system this is: read %s: %w", name, err)
		}
		if id, version = Parse(string(text)); id == "" {
			return "", "", fmt.Errorf("find out which operating system this is: %s has no line ID=", name)
		}
		return id, version, nil
	}
	return "", "", fmt.Errorf("find out which operating system this is: it has neither etc/os-release nor usr/lib/os-release: %w", missing)
}

// Parse returns ID and VERSION_ID of a file in the format of os-release(5): shell assignments, of which
// the last one of a name counts. Only the outer quotes matter, because no system's ID or VERSION_ID has
// a character that needs more quoting. A system without VERSION_ID may have its version under its own
// name: GARDENLINUX_VERSION.
func Parse(text string) (id, version string) {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		default:
			own[key] = value
		}
	}
	return id, cmp.Or(version, own[strings.ToUpper(id)+"_VERSION"])
}

// minorDropped are the systems whose tags have only the major version: nodepool.go of the GPU operator.
var minorDropped = []string{"rhel", "rocky", "ol"}

// Tag returns what the GPU operator appends to the tags of driver images for nodes with this ID and
// VERSION_ID in their os-release: "rhel9" for 9.4, "almalinux9.4", "ubuntu24.04". Where it differs from the
// ID of the system, the image needs it as an additional tag.
func Tag(id, versionID string) string {
	if slices.Contains(minorDropped, id) {
		versionID, _, _ = strings.Cut(versionID, ".")
	}
	return id + versionID
}
