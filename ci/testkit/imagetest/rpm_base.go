package imagetest

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	_ "modernc.org/sqlite" // the driver

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// PushBase pushes the base to the registry: one layer with the installed packages, the system's
// files and the database.
func (s *RPMSystem) PushBase() {
	t := s.world.t
	var files []repotest.File
	var installed []*rpmfile.Header
	for _, p := range s.installed {
		p.Signer = cmp.Or(p.Signer, s.Signer)
		for _, f := range p.Files {
			if strings.HasPrefix(f.Name, "lib64/") { // a link
				f.Name = "usr/" + f.Name
			}
			if !strings.HasSuffix(f.Name, "/") { // the files' paths create the folders
				files = append(files, f)
			}
		}
		f := require.Value(rpmfile.Open(bytes.NewReader(p.Bytes(t))))(t)
		installed = append(
			installed,
			require.Value(f.InstalledHeader(time.Unix(repotest.FileTime, 0), s.colour, nil))(t),
		)
	}
	for _, key := range s.Imported {
		installed = append(installed, s.importedKey(key))
	}
	files = append(files, s.Files...)
	database := s.records(installed)
	for _, path := range slices.Sorted(maps.Keys(database)) {
		files = append(files, text(path, string(database[path])))
	}
	if s.Change != nil {
		files = s.Change(files)
	}
	img := Image(
		t,
		"amd64",
		v1.Config{Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"bash"}},
		repotest.Compress(t, ".gz", repotest.Tar(t, "", files)),
	)
	s.world.push(s.world.Base(s.id), Index(t, img))
}

// importedKey returns the entry that rpm records for a key.
func (s *RPMSystem) importedKey(key *openpgp.Entity) *rpmfile.Header {
	t := s.world.t
	return require.Value(rpmfile.ParseHeader(repotest.Header(t,
		repotest.Entry{Tag: uint32(rpmfile.TagName), Value: "gpg-pubkey"},
		repotest.Entry{Tag: uint32(rpmfile.TagVersion), Value: "0a1b2c3d"},
		repotest.Entry{Tag: uint32(rpmfile.TagRelease), Value: "5e6f7a8b"},
		repotest.Entry{Tag: uint32(rpmfile.TagDescription), Value: repotest.Public(t, key)},
	)))(t)
}

// records returns the database, as files.
func (s *RPMSystem) records(installed []*rpmfile.Header) map[string][]byte {
	t := s.world.t
	none := fstest.MapFS{}
	switch s.database {
	case "ndb":
		none["usr/lib/sysimage/rpm/Packages.db"] = &fstest.MapFile{
			Data: rpmdb.WriteNDB(rpmdb.Contents{}, 1),
		}
	case "bdb":
		none["var/lib/rpm/Packages"] = &fstest.MapFile{Data: rpmdb.WriteBDB(rpmdb.Contents{}, 4096)}
	default:
		none["var/lib/rpm/rpmdb.sqlite"] = &fstest.MapFile{Data: require.Value(emptySQLite())(t)}
	}
	changed, _, err := require.Value(rpmdb.Read(none))(t).With(installed)
	require.NoErrorf(t, err, "rpm database of %s", s.id)
	return changed
}

// emptySQLite is a database without packages, made once.
var emptySQLite = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "imagetest-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "rpmdb.sqlite")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(
		context.Background(),
		"CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)",
	)
	err = errors.Join(err, db.Close())
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})
