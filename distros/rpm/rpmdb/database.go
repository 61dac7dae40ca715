package rpmdb

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm/rpmdb/blobs"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Database is what a system's database says, and what is needed to write it again. It is not changed after it was read, so
// it may be shared.
type Database struct {
	folder   string
	files    []string // names in the folder that belong to the database
	backend  backend
	packages []pkg
	last     uint32
}

// pkg is an installed package.
type pkg struct {
	number uint32
	header *rpmfile.Header
	stamp  uint32
}

// backend is one of the formats, with what it keeps of the base's files.
type backend interface {
	// kind is the name that rpm gives to the format.
	kind() string
	// write renders all files of a database that holds the packages, sorted by number, by their names in its folder.
	write(packages []pkg, last uint32) (map[string][]byte, error)
}

// Read reads the database of a system: usr/lib/sysimage/rpm, else var/lib/rpm, whichever has one, found through links if
// root follows them. A header that is not well-formed is an error. Errors are ErrFormat, or wrap fs.ErrNotExist when there is
// no database.
func Read(root fs.FS) (*Database, error) {
	place, err := locate(root)
	if err != nil {
		return nil, fmt.Errorf("rpm database: %w", err)
	}
	d := &Database{folder: place.folder, files: place.files}
	name := path.Join(place.folder, place.format.file)
	c, b, err := place.format.open(root, name)
	if err != nil {
		return nil, fmt.Errorf("rpm database %s: %w", name, err)
	}
	d.backend, d.last = b, c.Last
	slices.SortFunc(c.Records, func(a, b blobs.Record) int { return cmp.Compare(a.Number, b.Number) })
	for i, r := range c.Records {
		if i > 0 && r.Number == c.Records[i-1].Number {
			return nil, fmt.Errorf("rpm database %s: %w: two packages have the number %d", name, ErrFormat, r.Number)
		}
		h, err := rpmfile.ParseHeader(r.Blob)
		if err != nil {
			return nil, fmt.Errorf("rpm database %s: %w: package %d: %w; rpm --rebuilddb in the base leaves broken packages out", name, ErrFormat, r.Number, err)
		}
		d.packages = append(d.packages, pkg{r.Number, h, r.Stamp})
	}
	return d, nil
}

// Kind is the format, as rpm calls it: "bdb", "ndb" or "sqlite".
func (d *Database) Kind() string { return d.backend.kind() }

// Packages lists what is installed, in the order of its numbers, which is that of installation. Imported keys are among
// it: packages called gpg-pubkey, without files.
func (d *Database) Packages() []*rpmfile.Header {
	out := make([]*rpmfile.Header, len(d.packages))
	for i, p := range d.packages {
		out[i] = p.header
	}
	return out
}

// Keys lists the imported keys, armoured.
func (d *Database) Keys() [][]byte {
	var keys [][]byte
	for _, p := range d.packages {
		text := p.header.Text(rpmfile.TagDescription)
		if p.header.Text(rpmfile.TagName) == keyPackage && strings.Contains(text, "-----BEGIN PGP PUBLIC KEY BLOCK-----") {
			keys = append(keys, []byte(text))
		}
	}
	return keys
}

// With renders the database's files after the installation of packages, by their paths relative to the root, and lists the
// paths of files that have to go. Headers are to be as rpm stores them, see rpmfile.File.InstalledHeader. The order of the
// arguments is that of installation; the same input gives the same bytes, and the Database itself stays what it is.
//
// A package replaces those of its name and architecture, and those of its name when one of the two is noarch. Of packages
// that are installed side by side (kernels, see installOnly) and of imported keys, only the same version is replaced. What
// a package obsoletes goes as well.
func (d *Database) With(installed []*rpmfile.Header) (changed map[string][]byte, removed []string, err error) {
	packages, last, err := install(d.packages, d.last, installed)
	if err != nil {
		return nil, nil, fmt.Errorf("rpm database %s: %w", d.folder, err)
	}
	files, err := d.backend.write(packages, last)
	if err != nil {
		return nil, nil, fmt.Errorf("rpm database %s: write %s: %w", d.folder, d.Kind(), err)
	}
	changed = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		changed[path.Join(d.folder, name)] = files[name]
	}
	for _, name := range d.files {
		if _, kept := files[name]; !kept {
			removed = append(removed, path.Join(d.folder, name))
		}
	}
	return changed, removed, nil
}

// Replaced lists what With takes out of the database for these packages: those that they replace or obsolete.
func (d *Database) Replaced(installed []*rpmfile.Header) ([]*rpmfile.Header, error) {
	after, _, err := install(d.packages, d.last, installed)
	if err != nil {
		return nil, fmt.Errorf("rpm database %s: %w", d.folder, err)
	}
	kept := map[uint32]bool{}
	for _, p := range after {
		kept[p.number] = true
	}
	var gone []*rpmfile.Header
	for _, p := range d.packages {
		if !kept[p.number] {
			gone = append(gone, p.header)
		}
	}
	return gone, nil
}
