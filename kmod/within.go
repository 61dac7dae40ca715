package kmod

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the number of symbolic links that one path may lead through, as in the kernel.
const maxLinks = 40

// Within follows path inside root as if root were "/": absolute links start at root, and ".." does not leave
// it. The result is an existing path below root without links.
func Within(root, path string) (string, error) {
	todo := strings.Split(path, "/")
	here, links := "", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			here = filepath.Dir("/" + here)[1:]
			continue
		}
		next := filepath.Join(root, here, part)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			here = filepath.Join(here, part)
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("follow %s: %w", next, unix.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(target, "/") {
			here = ""
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return filepath.Join(root, here), nil
}
