package realrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// System is the result of Rocky: signed repositories and a base image that uses them. Its folders
// are shared and never written to.
type System struct {
	// Dir has www/HOST/PATH, the files that hosts serve; base, an OCI layout; key.asc, the key of
	// the repositories; root, the files of the base.
	Dir    string
	Kernel string // release of the newest kernel
}

// Base returns the system's base image, as driver-build's --base takes it.
func (s *System) Base() string { return "oci:" + filepath.Join(s.Dir, "base") }

// recipe is part of a result's key in the cache: increase it when the same inputs give another
// result.
const recipe = "3"

// Rocky makes the repositories and the base of Rocky Linux 9, unless the cache has them.
func Rocky(t testing.TB, headers Headers) *System {
	t.Helper()
	var names []string
	for _, p := range catalogue(t) {
		names = append(names, p.Debs...)
	}
	debs := candidates(t, append([]string{"download"}, names...)...)
	inputs := []string{
		recipe,
		string(rocky9),
		fmt.Sprint(systemFiles, debs, unused, unpackScript),
		headers.Release,
	}
	dir := keep(t, "rocky9", inputs, func(dir string) { makeRocky(t, headers, debs, dir) })
	return &System{Dir: dir, Kernel: headers.uname(t)}
}

// keep returns the folder of a result in the user's cache. Processes that want the same one wait
// for each other.
func keep(t testing.TB, name string, inputs []string, fill func(dir string)) string {
	t.Helper()
	folder := require.Value(tool.CacheDir("realrepo", ""))(t)
	return tool.Cached(t, folder, name+"-", func(partial string) error {
		require.NoError(t, os.MkdirAll(partial, 0o755))
		fill(partial)
		return nil
	}, inputs)
}
