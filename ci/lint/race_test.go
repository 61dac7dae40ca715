package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

var (
	raceTarget = regexp.MustCompile(`(?m)^race:.*\n((?:\t.*\n)+)`)
	folder     = regexp.MustCompile(`\./[\w/-]+`)
	// what several goroutines have in common, or what starts one
	shared = regexp.MustCompile(`(?m)^\s*go (func\(|\w+[.(])|\b(sync\.(Mutex|RWMutex|Map|WaitGroup)\b|atomic\.|errgroup\.|AfterFunc\()`)
)

// TestRace: make race runs the tests of every package of the product that does several things at once, and of no
// other: they are compiled once more for it.
func TestRace(t *testing.T) {
	t.Parallel()
	makefile := require.Value(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	recipe := raceTarget.FindSubmatch(makefile)
	if recipe == nil {
		t.Fatal("the Makefile has no target race")
	}
	raced := folder.FindAllString(string(recipe[1]), -1)
	for _, p := range packages(t) {
		tests := require.Value(filepath.Glob(filepath.Join(p.Dir, "*_test.go")))(t)
		if len(tests) == 0 || strings.HasPrefix(p.name(), "ci/") {
			continue
		}
		concurrent := slices.ContainsFunc(p.GoFiles, func(name string) bool {
			return shared.Match(require.Value(os.ReadFile(filepath.Join(p.Dir, name)))(t))
		})
		assert.Equalf(t, concurrent, slices.Contains(raced, "./"+p.name()), "make race has %s", p.name())
	}
}
