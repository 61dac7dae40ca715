package preflight

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	maxSmall = 64 << 10 // a file of sysfs, a kernel command line
	maxIndex = 16 << 20 // modules.dep; Debian's has 0.5 MB
	maxLinks = 40       // the kernel's limit
)

// errHost says that the host's root is not visible to this process.
var errHost = errors.New("the host's file system is not visible")

// readSmall reads a file of at most limit bytes.
func readSmall(name string, limit int64) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return string(data), err
}

// value returns the content of a file of sysfs or procfs without its newline, "" when it cannot be read.
func value(elem ...string) string {
	s, err := readSmall(filepath.Join(elem...), maxSmall)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(s)
}

func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// host returns the folder in which the host's root is visible. Without hostPID process 1 is our own and its
// root is ours, which says nothing about the host.
func (in *Input) host() (string, error) {
	theirs, hostErr := os.Stat(in.Host)
	ours, err := os.Stat(in.Root)
	if err = errors.Join(hostErr, err); err != nil {
		return "", fmt.Errorf("%w: %w", errHost, err)
	}
	if os.SameFile(theirs, ours) {
		return "", fmt.Errorf("%w: %s is our own root", errHost, in.Host)
	}
	return in.Host, nil
}

// within finds a file of another root. It follows links as a process in that root would: an absolute target
// begins at that root, and ".." ends at it.
func within(root, name string) (string, error) {
	var at []string
	rest := strings.Split(strings.Trim(name, "/"), "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = at[:max(0, len(at)-1)]
			continue
		}
		here := filepath.Join(root, filepath.Join(at...), part)
		info, err := os.Lstat(here)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = append(at, part)
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many links", name)
		}
		target, err := os.Readlink(here)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			at = nil
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return filepath.Join(root, filepath.Join(at...)), nil
}

// hostValue is value for a file below the host's root.
func hostValue(root, name string) string {
	file, err := within(root, name)
	if err != nil {
		return ""
	}
	return value(file)
}
