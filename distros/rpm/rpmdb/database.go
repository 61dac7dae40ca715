package rpmdb

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Database is the content of a system's database, and the data that is needed to write it again. It
// does not change after it was read, so it may be shared.
type Database struct {
	folder   string
	files    []string // names of the files in the folder that belong to the database
	format   format
	detail   uint32 // see format
	contents Contents
}

// Read reads the database of a system: the first of usr/lib/sysimage/rpm and var/lib/rpm that has
// one, also through links if root follows them. A malformed header is an error. Errors are
// ErrFormat, or wrap fs.ErrNotExist if there is no database.
func Read(root fs.FS) (*Database, error) {
	d, err := locate(root)
	if err != nil {
		return nil, fmt.Errorf("rpm database: %w", err)
	}
	name := path.Join(d.folder, d.format.file)
	d.contents, d.detail, err = d.format.read(root, name)
	if err != nil {
		return nil, fmt.Errorf("rpm database %s: %w", name, err)
	}
	records := d.contents.Records
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	for i, r := range records {
		if i > 0 && r.Number == records[i-1].Number {
			return nil, fmt.Errorf("rpm database %s: %w", name, damaged("two packages have the number %d", r.Number))
		}
		records[i].Header, err = rpmfile.ParseHeader(r.Blob)
		if err != nil {
			return nil, damaged(
				"rpm database %s: package %d: %w; rpm --rebuilddb in the base leaves broken packages out",
				name,
				r.Number,
				err,
			)
		}
	}
	return d, nil
}

// Backend returns rpm's name of the format: "bdb", "ndb" or "sqlite".
func (d *Database) Backend() string { return d.format.backend }

// Packages returns the installed packages in the order of their numbers, which is the order of
// installation. Imported keys are among them: packages with the name gpg-pubkey, without files.
func (d *Database) Packages() []*rpmfile.Header {
	out := make([]*rpmfile.Header, len(d.contents.Records))
	for i, p := range d.contents.Records {
		out[i] = p.Header
	}
	return out
}

// Metadata returns what the headers of the packages say of their dependencies, in the order of
// Packages.
func (d *Database) Metadata() ([]rpmfile.Metadata, error) {
	all := make([]rpmfile.Metadata, len(d.contents.Records))
	for i, p := range d.contents.Records {
		var err error
		all[i], err = p.Header.Metadata()
		if err != nil {
			return nil, fmt.Errorf("rpm database %s: package %d: %w", d.folder, p.Number, err)
		}
	}
	return all, nil
}

// Keys returns the imported keys, armoured.
func (d *Database) Keys() [][]byte {
	var keys [][]byte
	for _, p := range d.contents.Records {
		text := p.Header.Text(rpmfile.TagDescription)
		if p.Header.Text(rpmfile.TagName) == keyPackage &&
			strings.Contains(text, "-----BEGIN PGP PUBLIC KEY BLOCK-----") {
			keys = append(keys, []byte(text))
		}
	}
	return keys
}

// With returns the database's files after the installation of packages, by their paths relative to
// the root, and the paths of the files that must be removed. Headers must be in the form in which
// rpm stores them, see rpmfile.File.InstalledHeader. The order of the arguments is that of
// installation. The same input yields the same bytes. The Database itself does not change.
//
// A package replaces those of its name and architecture, and those of its name if one of the two is
// noarch. Packages that are installed side by side (kernels, see rpmfile.InstallOnly) and imported
// keys replace only the same version. Packages that a new one obsoletes are removed as well.
func (d *Database) With(
	installed []*rpmfile.Header,
) (changed map[string][]byte, removed []string, err error) {
	after, err := install(d.contents, installed)
	if err != nil {
		return nil, nil, fmt.Errorf("rpm database %s: %w", d.folder, err)
	}
	files, err := d.format.write(after, d.detail)
	if err != nil {
		return nil, nil, fmt.Errorf("rpm database %s: write %s: %w", d.folder, d.Backend(), err)
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

// Gone returns the files of the packages that With removes from the database for these packages,
// except those that another package has as well.
func (d *Database) Gone(installed []*rpmfile.Header) ([]string, error) {
	after, err := install(d.contents, installed)
	if err != nil {
		return nil, fmt.Errorf("rpm database %s: %w", d.folder, err)
	}
	if len(after.Records) == len(d.contents.Records)+len(installed) {
		return nil, nil
	}
	all, err := d.Metadata()
	if err != nil {
		return nil, err
	}
	kept := map[uint32]bool{}
	stays := map[string]bool{}
	for _, p := range after.Records {
		kept[p.Number] = true
	}
	var gone []string
	for i, p := range d.contents.Records {
		if !kept[p.Number] {
			gone = append(gone, all[i].Files...)
			continue
		}
		for _, file := range all[i].Files {
			stays[file] = true
		}
	}
	return slices.DeleteFunc(gone, func(file string) bool { return stays[file] }), nil
}
