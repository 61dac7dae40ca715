package rpmtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// Repository describes a repository that createrepo_c makes.
type Repository struct {
	Packages    []string // paths of .rpm files
	Compression string   // of the lists: "gz", "xz", "zstd", "bz2"; "" is gz
	Checksum    string   // "sha256", "sha512", "sha1"; "" is sha256
	Database    bool     // with sqlite lists as well
	Key         *Key     // signs repomd.xml; nil: it is not signed
	PublishKey  bool     // write repodata/repomd.xml.key, as SUSE's repositories have it
	Modules     string   // modules.yaml; "": no modules
	Revision    string   // of repomd.xml; "": the time
	Simple      bool     // file names without a checksum, like those of el5 to el7
}

// Create makes the repository in a new folder below dir and returns its path. It links or copies the packages
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
		linkOrCopy(t, p, filepath.Join(folder, filepath.Base(p)))
	}
	r.Index(t, dir)
	return dir
}

// Index makes the lists of a folder that already holds its packages, and replaces existing lists.
func (r Repository) Index(t testing.TB, dir string) {
	t.Helper()
	compression, checksum := "gz", "sha256"
	if r.Compression != "" {
		compression = r.Compression
	}
	if r.Checksum != "" {
		checksum = r.Checksum
	}
	names, database := "--unique-md-filenames", "--no-database"
	if r.Simple {
		names = "--simple-md-filenames"
	}
	if r.Database {
		database = "--database"
	}
	zstandard := compression == "zstd"
	if zstandard {
		compression = "gz" // createrepo_c before 1.0 knows only gz
	}
	args := []string{"--quiet", "--checksum", checksum, "--general-compress-type", compression, names, database}
	if r.Revision != "" {
		args = append(args, "--revision", r.Revision)
	}
	Run(t, nil, "createrepo_c", append(args, dir)...)
	repodata := filepath.Join(dir, "repodata")
	if zstandard {
		require.NoError(t, recompress(repodata))
	}
	if r.Modules != "" {
		file := filepath.Join(t.TempDir(), "modules.yaml")
		require.NoError(t, os.WriteFile(file, []byte(r.Modules), 0o644))
		Run(t, nil, "modifyrepo_c", "--mdtype=modules", "--checksum", checksum, file, repodata)
	}
	r.SignIndex(t, dir)
}

// SignIndex signs repomd.xml, for tests that have changed it.
func (r Repository) SignIndex(t testing.TB, dir string) {
	t.Helper()
	if r.Key == nil {
		return
	}
	repomd := filepath.Join(dir, "repodata", "repomd.xml")
	r.Key.Detach(t, repomd)
	if r.PublishKey {
		require.NoError(t, os.WriteFile(repomd+".key", r.Key.Public, 0o644))
	}
}

// Serve publishes a folder over HTTP until the test ends and returns its address, without a slash at the end.
func Serve(t testing.TB, dir string) string {
	t.Helper()
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s.URL
}

// linkOrCopy hard-links a file to another path, or copies it if linking fails. An existing file is replaced.
func linkOrCopy(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if os.Link(from, to) == nil {
		return
	}
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close() //nolint:errcheck // read only
	out := require.Value(os.Create(to))(t)
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	require.NoError(t, err)
}
