package apt

import (
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/dpkg"
)

const maxEntries = 1 << 21 // packages of one index; Debian's main has 63000

// read parses an index.
func (j job) read(in io.Reader, arch string) (all []entry, err error) {
	for p, err := range dpkg.ReadParagraphs(in) {
		if err != nil {
			return nil, err
		}
		e, err := newEntry(p)
		if err != nil {
			return nil, err
		}
		if e.arch != arch && e.arch != "all" {
			continue
		}
		if len(all) == maxEntries {
			return nil, fmt.Errorf("more than %d packages", maxEntries)
		}
		e.repo, e.component = j.repo, j.component
		all = append(all, e)
	}
	return all, nil
}

// newEntry keeps only the text of a paragraph: its parsed fields would take as much memory again.
func newEntry(p dpkg.Paragraph) (entry, error) {
	e := entry{name: p.Get("Package"), version: p.Get("Version"), arch: p.Get("Architecture"), provides: p.Get("Provides"), raw: p.String()}
	if e.name == "" || e.version == "" || e.arch == "" {
		return e, errors.New("a package without name, version or architecture")
	}
	return e, nil
}
