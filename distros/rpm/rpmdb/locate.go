package rpmdb

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// folders are the folders of the database: Fedora, SUSE and el10 moved it to the first, and left a
// link at the second.
var folders = []string{"usr/lib/sysimage/rpm", "var/lib/rpm"}

// format is one of the formats of a database. Its detail is what is kept of the base's file besides
// the packages: the page size of bdb, the generation of ndb.
type format struct {
	backend string // rpm's name of it
	file    string // by which it is recognised
	read    func(root fs.FS, name string) (c Contents, detail uint32, err error)
	// write returns all files of a database with these packages, which are sorted by number. The
	// keys are the names of the files in the database's folder.
	write func(c Contents, detail uint32) (map[string][]byte, error)
}

// formats returns the formats in the order in which rpm looks for another format's database if its
// own is missing.
func formats() []format {
	return []format{
		{"sqlite", sqliteFile, readSQLiteFile, writeSQLite},
		{"ndb", "Packages.db", inMemory(ReadNDB), writeNDB},
		{
			"bdb",
			"Packages",
			inMemory(ReadBDB),
			func(c Contents, pageSize uint32) (map[string][]byte, error) {
				return map[string][]byte{"Packages": WriteBDB(c, pageSize)}, nil
			},
		},
	}
}

// locate finds the database. An empty file does not count: systems leave such files when they
// change the format.
func locate(root fs.FS) (*Database, error) {
	for _, folder := range folders {
		list, err := fs.ReadDir(root, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range formats() {
			info, err := fs.Stat(root, path.Join(folder, f.file))
			if err != nil {
				continue
			}
			if info.Mode().IsRegular() && info.Size() > 0 {
				return &Database{folder: folder, files: databaseFiles(list), format: f}, nil
			}
		}
	}
	return nil, fmt.Errorf(
		"no rpmdb.sqlite, Packages.db or Packages in %s: %w",
		strings.Join(folders, " or "),
		fs.ErrNotExist,
	)
}

// databaseFiles returns the names of those files in the folder that rpm makes, of all formats:
// after a change, the remains of an older database would only mislead.
func databaseFiles(list []fs.DirEntry) []string {
	names := []string{
		"Packages", "Packages.db", "Index.db", "Filemd5s", "Provideversion", "Requireversion", "Pubkeys", "Depends", "Filedigests",
		"rpmdb.sqlite", "rpmdb.sqlite-wal", "rpmdb.sqlite-shm", "rpmdb.sqlite-journal",
	}
	for _, x := range indexes {
		names = append(names, x.table)
	}
	var out []string
	for _, e := range list {
		if !e.IsDir() &&
			(slices.Contains(names, e.Name()) || strings.HasPrefix(e.Name(), "__db.")) {
			out = append(out, e.Name())
		}
	}
	return out
}

// inMemory returns the function that reads a file as a whole.
func inMemory(
	read func(data []byte) (Contents, uint32, error),
) func(fs.FS, string) (Contents, uint32, error) {
	return func(root fs.FS, name string) (c Contents, detail uint32, err error) {
		data, err := readFile(root, name)
		if err != nil {
			return c, 0, err
		}
		return read(data)
	}
}

func readFile(root fs.FS, name string) ([]byte, error) {
	data, err := bounded.FSFile(root, name, MaxBytes)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = damaged("%w", err)
	}
	return data, err
}
