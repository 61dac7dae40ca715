package realrepo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Repository describes a repository that createrepo_c makes.
type Repository struct {
	Packages   []string // paths of .rpm files
	Flags      []string // of createrepo_c; nil: no database
	Key        *Key     // signs repomd.xml; nil: it is not signed
	PublishKey bool     // write repodata/repomd.xml.key, as SUSE's repositories have it
}

// Create makes the repository in a new folder below dir and returns its path.
func (r Repository) Create(t testing.TB, dir string) string {
	t.Helper()
	dir, err := os.MkdirTemp(dir, "repository") //nolint:usetesting // below the folder that the caller wants
	require.NoError(t, err)
	r.Publish(t, dir)
	return dir
}

// Publish makes the repository in a folder that servers of other users may read. It links the
// packages into Packages/.
func (r Repository) Publish(t testing.TB, dir string) {
	t.Helper()
	folder := filepath.Join(dir, "Packages")
	repodata := filepath.Join(dir, "repodata")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	for _, p := range r.Packages {
		to := filepath.Join(folder, filepath.Base(p))
		_ = os.Remove(to) // a package of the same name
		require.NoError(t, os.Link(p, to))
	}
	flags := r.Flags
	if flags == nil {
		flags = []string{"--no-database"}
	}
	tool.Must(t, append([]string{"createrepo_c", "--quiet", dir}, flags...)...)
	if r.Key == nil {
		return
	}
	r.Key.gpg(t, "--armor", "--detach-sign", filepath.Join(repodata, "repomd.xml"))
	if r.PublishKey {
		testfile.Write(t, filepath.Join(repodata, "repomd.xml.key"), string(r.Key.Public))
	}
}
