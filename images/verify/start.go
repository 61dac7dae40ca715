package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// checkStart: process 1 is root, ends at SIGTERM, and finds the image's own files in their places.
func checkStart(s *subject) {
	c := s.config.Config
	root := []string{"", "root", "0"}
	user, group, _ := strings.Cut(c.User, ":")
	if !slices.Contains(root, user) || !slices.Contains(root, group) {
		s.fail("", "the image starts as user %.100s: only root loads modules", c.User)
	}
	signal := strings.TrimPrefix(c.StopSignal, "SIG")
	if !slices.Contains([]string{"", "TERM", "15"}, signal) {
		s.fail("", "StopSignal is %.100q: the driver is unloaded at SIGTERM", c.StopSignal)
	}
	hidden := slices.Concat(
		s.libraryDirs,
		s.programDirs,
		[]string{recipe.ShareDir, "usr/src", "lib/firmware", "etc"},
	)
	for volume := range c.Volumes {
		v := strings.Trim(path.Clean("/"+volume), "/")
		i := slices.IndexFunc(hidden, func(dir string) bool {
			return v == "" || v == dir || recipe.InFolder(dir, v) || recipe.InFolder(v, dir)
		})
		if i >= 0 {
			s.fail("", "the volume %.200q hides /%s of the image", volume, hidden[i])
		}
	}
}
