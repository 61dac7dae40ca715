package lint

import (
	"io/fs"
	"os"
	"regexp"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestVersionsOfPages: a driver that a page or the chart names is in the matrix, or was released by NVIDIA: a
// command with any other version fails, and a reader cannot know that it is an example.
func TestVersionsOfPages(t *testing.T) {
	t.Parallel()
	root, version := os.DirFS("../.."), regexp.MustCompile(`\b[0-9]{3}\.[0-9]{2,3}\.[0-9]{2}\b`)
	known := map[string]bool{
		"550.144.06": true, // of vGPU, whose archives are not public
		"595.99.01":  true, // add-driver needs one that is in no matrix
	}
	read := func(each func(file, v string), patterns ...string) (files int) {
		for _, pattern := range patterns {
			for _, file := range require.Value(fs.Glob(root, pattern))(t) {
				if info, err := fs.Stat(root, file); err != nil || !info.Mode().IsRegular() {
					continue
				}
				files++
				for _, v := range version.FindAllString(string(require.Value(fs.ReadFile(root, file))(t)), -1) {
					each(file, v)
				}
			}
		}
		return files
	}
	read(func(_, v string) { known[v] = true }, "matrix.yaml", "images/releases/data/*")
	pages := read(func(file, v string) {
		assert.Equalf(t, true, known[v], "%s names the driver %s: the matrix or the list of NVIDIA's releases has it", file, v)
	}, "docs/*.md", "*.md", "deploy/chart/*", "deploy/chart/templates/*", "templates/*")
	if pages < 20 {
		t.Errorf("%d pages were read", pages)
	}
}
