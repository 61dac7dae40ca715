package rpmtest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/gpg"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Repository describes a repository that createrepo_c makes.
type Repository struct {
	Packages    []string // paths of .rpm files
	Compression string   // of the lists: "gz", "xz", "bz2"; "" is gz
	Checksum    string   // "sha256", "sha512", "sha1"; "" is sha256
	Database    bool     // with sqlite lists as well
	Key         *gpg.Key // signs repomd.xml; nil: it is not signed
	PublishKey  bool     // write repodata/repomd.xml.key, as SUSE's repositories have it
	Simple      bool     // file names without a checksum, like those of el5 to el7
}

// Create makes the repository in a new folder below dir and returns its path. It links the packages
// into Packages/.
func (r Repository) Create(t testing.TB, dir string) string {
	t.Helper()
	dir, err := os.MkdirTemp(dir, "repository") //nolint:usetesting // below the folder that the caller wants
	require.NoError(t, err)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // servers of other users read it
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "Packages")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for _, p := range r.Packages {
		to := filepath.Join(folder, filepath.Base(p))
		_ = os.Remove(to) // a package of the same name
		require.NoError(t, os.Link(p, to))
	}
	r.index(t, dir)
	return dir
}

func (r Repository) index(t testing.TB, dir string) {
	t.Helper()
	compression, checksum := cmp.Or(r.Compression, "gz"), cmp.Or(r.Checksum, "sha256")
	names, database := "--unique-md-filenames", "--no-database"
	if r.Simple {
		names = "--simple-md-filenames"
	}
	if r.Database {
		database = "--database"
	}
	tool.Must(t, "createrepo_c", "--quiet", "--checksum", checksum, "--general-compress-type", compression, names, database, dir)
	repodata := filepath.Join(dir, "repodata")
	if r.Key == nil {
		return
	}
	require.NoError(t, r.Key.Detached(t.Context(), filepath.Join(repodata, "repomd.xml")))
	if r.PublishKey {
		testfile.Write(t, filepath.Join(repodata, "repomd.xml.key"), string(r.Key.Public))
	}
}

// Serve publishes a folder over HTTP until the test ends and returns its address, without a slash at the end.
func Serve(t testing.TB, dir string) string {
	t.Helper()
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s.URL
}
