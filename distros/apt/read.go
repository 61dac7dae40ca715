package apt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/dpkg"
)

const maxEntries = 1 << 21 // packages of one index; Debian's main has 63000

// read parses an index and returns its unpacked size too.
func (j job) read(ctx context.Context, file, ending string, limit int64, arch string) ([]entry, int64, error) {
	f, err := os.Open(file) //nolint:gosec // a path in the store
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	in, err := dpkg.Decompress(bufio.NewReaderSize(f, 128<<10), ending)
	if err != nil {
		return nil, 0, fmt.Errorf("decompress: %w", err)
	}
	defer in.Close() //nolint:errcheck // read only
	counted := &bounded.Limited{Reader: in, Left: limit, Err: errors.New("it unpacks to more bytes than its Release file allows"), Stop: ctx.Err}
	var out []entry
	for p, err := range dpkg.ReadParagraphs(counted) {
		if err != nil {
			return nil, 0, err
		}
		e, err := newEntry(p)
		if err != nil {
			return nil, 0, err
		}
		if e.arch != arch && e.arch != "all" {
			continue
		}
		if len(out) == maxEntries {
			return nil, 0, fmt.Errorf("more than %d packages", maxEntries)
		}
		e.repo, e.component = j.repo, j.component
		out = append(out, e)
	}
	return out, limit - counted.Left, nil
}

// newEntry keeps only the text of a paragraph: its parsed fields would take as much memory again.
func newEntry(p dpkg.Paragraph) (entry, error) {
	e := entry{name: p.Get("Package"), version: p.Get("Version"), arch: p.Get("Architecture"), provides: p.Get("Provides"), raw: p.String()}
	if e.name == "" || e.version == "" || e.arch == "" {
		return e, errors.New("a package without name, version or architecture")
	}
	return e, nil
}
