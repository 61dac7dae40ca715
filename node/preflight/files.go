package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod"
)

const (
	maxSmall = 64 << 10 // a file of sysfs, a kernel command line
	maxIndex = 16 << 20 // modules.dep; Debian's has 0.5 MB
)

// errHost says that the host's root is not visible to this process.
var errHost = errors.New("the host's file system is not visible")

// value returns the content of a file of sysfs or procfs without its newline, "" when it cannot be
// read.
func value(elem ...string) string {
	s, err := bounded.Text(filepath.Join(elem...), maxSmall)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(s)
}

func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// notFolder says which of some paths in a folder exists and is no folder, "" when none. A link
// counts as what it leads to; where the driver root belongs, no link may be.
func notFolder(dir string, names ...string) string {
	for _, name := range names {
		path := filepath.Join(dir, name)
		target, linkErr := os.Readlink(path)
		st, err := os.Lstat(path)
		if linkErr == nil && name != "driver" {
			st, err = os.Stat(path)
		}
		switch {
		case linkErr != nil && err != nil, err == nil && st.IsDir():
		case linkErr == nil:
			return fmt.Sprintf("%s is a link to %q", path, target)
		default:
			return path + " is a file"
		}
	}
	return ""
}

func (in *Input) host() (string, error) { return HostRoot(in.Host, in.Root) }

// HostRoot returns host, the root of process 1, if the host's root is visible there. Without
// hostPID process 1 is our own and its root is ours, which says nothing about the host.
func HostRoot(host, root string) (string, error) {
	theirs, hostErr := os.Stat(host)
	ours, err := os.Stat(root)
	err = errors.Join(hostErr, err)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errHost, err)
	}
	if os.SameFile(theirs, ours) {
		return "", fmt.Errorf("%w: %s is our own root", errHost, host)
	}
	return host, nil
}

// hostValue is value for a file below the host's root.
func hostValue(root, name string) string {
	file, err := kmod.Within(root, name)
	if err != nil {
		return ""
	}
	return value(file)
}
