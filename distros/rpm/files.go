package rpm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// fileTable records which packages own the files that no primary list names. It is filled on
// demand: Fedora's lists of files have 800 MB.
type fileTable struct {
	mu sync.Mutex
	// Packages, by index, by path. An empty list means that all lists of files were searched and no
	// package owns the file.
	known map[string][]int32
}

// Owners returns the available packages that own a file. It uses the primary lists; if those do not
// name the file, it fetches and reads the lists of files. The order is that of WhatProvides. It
// returns an error if the context ends or a list cannot be downloaded.
func (x *Index) Owners(ctx context.Context, file string) ([]*Package, error) {
	if found := x.WhatProvides(rpmfile.Relation{Name: file}); len(found) > 0 {
		return found, nil
	}
	x.files.mu.Lock()
	defer x.files.mu.Unlock()
	if _, ok := x.files.known[file]; !ok {
		if err := x.lookFor(ctx, file); err != nil {
			return nil, err
		}
	}
	return x.available(x.files.known[file]), nil
}

// lookFor searches the lists of files for one file. The first time it also searches for all other
// files that some package requires, because reading the lists takes seconds and more questions
// follow.
func (x *Index) lookFor(ctx context.Context, file string) error {
	wanted := map[string]bool{file: true}
	if x.files.known == nil {
		x.files.known = map[string][]int32{}
		x.requiredFiles(wanted)
	}
	found := map[string][]string{} // paths by digest of the package
	for _, repo := range x.repos {
		list, ok := repo.md.Lists["filelists"]
		if !ok {
			continue
		}
		err := repo.read(ctx, "filelists", list, maxFilelists, func(in io.Reader) error {
			return readFilelists(in, wanted, found)
		})
		if err != nil {
			x.files.known = nil // so that the next call searches for all files again
			return fmt.Errorf("look for who owns %s: package repository %s: %w", file, repo.name(), err)
		}
	}
	for name := range wanted {
		x.files.known[name] = nil
	}
	for i := range x.packages {
		for _, name := range found[cmp.Or(x.packages[i].SHA256, x.packages[i].SHA512)] {
			x.files.known[name] = append(x.files.known[name], int32(i)) //nolint:gosec // bounded by maxPackages
		}
	}
	return nil
}

// requiredFiles adds the files that packages require and that no primary list names.
func (x *Index) requiredFiles(wanted map[string]bool) {
	for i := range x.packages {
		for _, r := range x.packages[i].Metadata.Requires {
			if name := r.Relation.Name; strings.HasPrefix(name, "/") && len(x.provides[name]) == 0 {
				wanted[name] = true
			}
		}
	}
}

// readFilelists searches a filelists.xml for the wanted files and adds those found under the digest
// of their package.
func readFilelists(in io.Reader, wanted map[string]bool, found map[string][]string) error {
	x := newXMLReader(in)
	var pkgid string
	total := 0
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case token != xmlStart:
		case x.Depth == 1 && string(x.Name) != "filelists":
			return fmt.Errorf("it begins with <%.40s>, want <filelists>", x.Name)
		case x.Depth == 2:
			pkgid = strings.ToLower(string(x.Attr("pkgid")))
		case x.Depth == 3 && string(x.Name) == "file":
			text, err := x.Content()
			if err != nil {
				return err
			}
			if !wanted[string(text)] {
				continue
			}
			if total++; total > maxPackages {
				return fmt.Errorf("it has the files that are looked for more than %d times", maxPackages)
			}
			found[pkgid] = append(found[pkgid], string(text))
		}
	}
}
