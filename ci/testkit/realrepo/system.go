package realrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// System is the result of Make: signed repositories and a base image that uses them. Its folders are shared
// and never written to.
type System struct {
	// Dir has www/HOST/PATH, the files that hosts serve; base, an OCI layout; key.asc, the key of the
	// repositories; for the rpm family root, the files of the base. The database of packages in root is always in
	// SQLite's format, which Debian's programs can write.
	Dir string
	// Kernel is the release of the newest kernel of the rpm family.
	Kernel string
}

// Base returns the system's base image, as driver-build's --base takes it.
func (s *System) Base() string { return "oci:" + filepath.Join(s.Dir, "base") }

// Options say what to make.
type Options struct {
	// System is ubuntu24.04 or the ID of a row of systems: "rocky9".
	System string
	// Headers are those of the newest kernel of the rpm family. Without them it has the file with its release only.
	Headers Headers
	// Debian is the folder of an OCI layout with a base of Debian 12, as ci/base makes it, for Ubuntu's base.
	Debian string
}

// recipe is part of a result's key in the cache: increase it when the same inputs give another result.
const recipe = "1"

// Make makes the repositories and the base of a system, unless the cache has them.
func Make(t testing.TB, o Options) *System {
	t.Helper()
	if o.System == "ubuntu24.04" {
		return o.ubuntu(t)
	}
	i := slices.IndexFunc(systems(), func(s system) bool { return s.id == o.System })
	if i < 0 {
		t.Fatalf("no repositories of %q can be made", o.System)
	}
	sys := systems()[i]
	var names []string
	for _, s := range catalogue() {
		names = append(names, s.debs...)
	}
	debs := candidates(t, append([]string{"download"}, names...)...)
	inputs := []string{recipe, fmt.Sprint(sys, catalogue(), debs, unused, unpackScript), o.Headers.Release}
	dir := keep(t, sys.id, inputs, func(dir string) { sys.make(t, o.Headers, debs, dir) })
	version, number := o.Headers.version(t)
	return &System{Dir: dir, Kernel: sys.uname(version, fmt.Sprintf(sys.build, number), "")}
}

// keep returns the folder of a result in the user's cache. Processes that want the same one wait for each
// other. Results of other inputs, mostly versions of Debian's packages, are removed when nobody has used them
// for a week.
func keep(t testing.TB, name string, inputs []string, fill func(dir string)) string {
	t.Helper()
	folder := require.Value(tool.CacheDir("realrepo", ""))(t)
	dir := filepath.Join(folder, name+"-"+require.Value(tool.CacheKey(inputs))(t))
	require.NoErrorf(t, tool.Once(dir, func(partial string) error {
		require.NoError(t, os.MkdirAll(partial, 0o755))
		fill(partial)
		return tool.Prune(filepath.Join(folder, "[^.]*"), 0, 7*24*time.Hour)
	}), "make %s", name)
	return dir
}

// addLayer appends a layer, an archive, to the image with a tag in an OCI layout.
func addLayer(t testing.TB, layout, tag, archive string) {
	t.Helper()
	tool.Must(t, "umoci", "raw", "add-layer", "--image", layout+":"+tag, archive)
}
