package completion

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// maxRecord bounds a record of the cache about a tag. One has about 150 bytes.
const maxRecord = 4096

// cachedNames returns the names of images in registries that the cache knows: those of bases and of images
// that were pulled. A cache that is not there, or cannot be read, knows none.
func cachedNames(c *cobra.Command) (names []string) {
	dir := cmp.Or(c.Flag("cache").Value.String(), os.Getenv("DRIVER_BUILD_CACHE"))
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(user, "driver-build")
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "tags"))
	for _, e := range entries[:min(len(entries), maxEntries)] {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "tags", e.Name()))
		var record struct{ Name string }
		if err == nil && json.Unmarshal(text, &record) == nil && record.Name != "" {
			names = append(names, record.Name)
		}
	}
	slices.Sort(names)
	return names
}

// imageName offers images on this machine, and those in registries that the cache knows.
func imageName(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	all, directive := image(c, args, begun)
	return append(all, beginning(begun, cachedNames(c))...), directive
}
