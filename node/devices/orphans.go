package devices

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Orphans returns NVIDIA's device files and their links that no driver serves, which a predecessor
// left whose record is lost: names of NVIDIA's, with the driver's fixed major or one that no driver
// has. It returns none while a driver is loaded.
func (n Nodes) Orphans() (found []Node) {
	text, err := bounded.File(filepath.Join(n.Proc, "devices"), maxText)
	majors := parseMajors(text)
	if err != nil {
		return nil
	}
	for name := range majors {
		if strings.HasPrefix(name, "nvidia") {
			return nil
		}
	}
	for _, pattern := range []string{"nvidia*", "nvidia-caps*/*", "gdrdrv"} {
		paths, _ := filepath.Glob(filepath.Join(n.Dev, pattern)) //nolint:errcheck // the pattern is good
		for _, path := range paths {
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
				continue
			}
			node := Node{Path: path, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev), Made: true}
			node.Link = filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", node.Major, node.Minor))
			if node.check(n.Dev) == nil && stranger(majors, node.Major) == "" {
				found = append(found, node)
			}
		}
	}
	return found
}
