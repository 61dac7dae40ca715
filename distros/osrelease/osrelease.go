// Package osrelease reads how a system names itself: the file os-release, the text that kubelet
// reports, the names in image tags. It also knows the systems for which no driver image can be
// made. It has no data of a system that images are made for; that is in package distros.
package osrelease

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
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

// Read returns ID and VERSION_ID of etc/os-release or, where that is missing, of
// usr/lib/os-release. A root without either file wraps fs.ErrNotExist.
func Read(root fs.FS) (id, version string, err error) {
	fields, err := Fields(root)
	if err != nil {
		return "", "", err
	}
	id, version = identity(fields)
	if id == "" {
		err = errors.New("find out which operating system this is: its os-release has no line ID=")
	}
	return id, version, err
}

// Fields returns all values of the file that Read reads, without quotes, by their names.
func Fields(root fs.FS) (map[string]string, error) {
	text, err := Text(root)
	if err != nil {
		return nil, err
	}
	return parse(text), nil
}

// Text returns the file that Read reads, as it is.
func Text(root fs.FS) (string, error) {
	var missing error
	for _, name := range Files() {
		text, err := bounded.FSFile(root, name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			missing = err
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find out which operating system this is: %w", err)
		}
		return string(text), nil
	}
	return "", fmt.Errorf(
		"find out which operating system this is: it has neither etc/os-release nor usr/lib/os-release: %w",
		missing,
	)
}

// Parse returns ID and VERSION_ID of a file in the format of os-release(5).
func Parse(text string) (id, version string) { return identity(parse(text)) }

// parse reads shell assignments, of which the last one of a name counts. Only the outer quotes
// matter, because no system's ID or VERSION_ID has a character that needs more quoting.
func parse(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[key] = strings.Trim(value, `"'`)
	}
	return fields
}

// identity: a system without VERSION_ID may have its version under its own name,
// GARDENLINUX_VERSION.
func identity(fields map[string]string) (id, version string) {
	id = fields["ID"]
	return id, cmp.Or(fields["VERSION_ID"], fields[strings.ToUpper(id)+"_VERSION"])
}

// minorDropped are the systems whose tags have only the major version: nodepool.go of the GPU
// operator.
var minorDropped = []string{"rhel", "rocky", "ol"}

// Tag returns what the GPU operator appends to the tags of driver images for nodes with this ID and
// VERSION_ID in their os-release: "rhel9" for 9.4, "almalinux9.4", "ubuntu24.04". Where it differs
// from the ID of the system, the image needs it as an additional tag.
func Tag(id, versionID string) string {
	if slices.Contains(minorDropped, id) {
		versionID, _, _ = strings.Cut(versionID, ".")
	}
	return id + versionID
}
