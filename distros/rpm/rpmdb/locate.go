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

// folders are the folders of the database: Fedora, SUSE and el10 moved it to the first, and left a link at
// the second.
var folders = []string{"usr/lib/sysimage/rpm", "var/lib/rpm"}

// format is one of the formats of a database.
type format struct {
	file string // the file by which it is recognised
	open func(root fs.FS, name string) (Contents, backend, error)
}

// formats returns the formats in the order in which rpm looks for another format's database if its own is
// missing.
func formats() []format {
	return []format{{"rpmdb.sqlite", openSQLite}, {"Packages.db", openNDB}, {"Packages", openBDB}}
}

// location says where a database is.
type location struct {
	folder string
	format format
	files  []string
}

// locate finds the database. An empty file does not count: systems leave such files when they change the
// format.
func locate(root fs.FS) (location, error) {
	for _, folder := range folders {
		list, err := fs.ReadDir(root, folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return location{}, err
		}
		for _, f := range formats() {
			if info, err := fs.Stat(root, path.Join(folder, f.file)); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				return location{folder, f, databaseFiles(list)}, nil
			}
		}
	}
	return location{}, fmt.Errorf("no rpmdb.sqlite, Packages.db or Packages in %s: %w", strings.Join(folders, " or "), fs.ErrNotExist)
}

// databaseFiles returns the names of those files in the folder that rpm makes, of all formats: after a
// change, the remains of an older database would only mislead.
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
		if !e.IsDir() && (slices.Contains(names, e.Name()) || strings.HasPrefix(e.Name(), "__db.")) {
			out = append(out, e.Name())
		}
	}
	return out
}

// readFile reads a file of the database.
func readFile(root fs.FS, name string) ([]byte, error) {
	data, err := bounded.FSFile(root, name, MaxBytes)
	if _, ok := errors.AsType[*bounded.TooLargeError](err); ok {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return data, err
}

// bdb is the backend of Berkeley DB.
type bdb struct{ pageSize int }

func openBDB(root fs.FS, name string) (Contents, backend, error) {
	data, err := readFile(root, name)
	if err != nil {
		return Contents{}, nil, err
	}
	c, pageSize, err := ReadBDB(data)
	return c, bdb{pageSize}, err
}

func (bdb) kind() string { return "bdb" }

func (b bdb) write(packages []pkg, last uint32) (map[string][]byte, error) {
	return map[string][]byte{"Packages": WriteBDB(asContents(packages, last), b.pageSize)}, nil
}

// ndb is the backend of rpm's own format.
type ndb struct{ generation uint32 }

func openNDB(root fs.FS, name string) (Contents, backend, error) {
	data, err := readFile(root, name)
	if err != nil {
		return Contents{}, nil, err
	}
	c, generation, err := ReadNDB(data)
	return c, ndb{generation}, err
}

func (ndb) kind() string { return "ndb" }

func (n ndb) write(packages []pkg, last uint32) (map[string][]byte, error) {
	generation := n.generation + 1
	found, err := writeNDBIndex(packages, generation)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"Packages.db": WriteNDB(asContents(packages, last), generation), "Index.db": found}, nil
}

func asContents(packages []pkg, last uint32) Contents {
	c := Contents{Last: last}
	for _, p := range packages {
		c.Records = append(c.Records, Record{Number: p.number, Blob: p.header.Bytes(), Stamp: p.stamp})
	}
	return c
}
