package apt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/driver-container/driver-container/distros/dpkg"
)

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
	counted := &counter{ctx: ctx.Err, r: in, left: limit}
	var a arena
	for p, err := range dpkg.ReadParagraphs(counted) {
		if err != nil {
			return nil, 0, err
		}
		if err := a.add(p.String(), arch, j.repo, j.component); err != nil {
			return nil, 0, err
		}
	}
	return a.entries, limit - counted.left, nil
}

// counter refuses more bytes than were announced, and stops when the context ends.
type counter struct {
	ctx  func() error
	r    io.Reader
	left int64
}

func (c *counter) Read(p []byte) (int, error) {
	if err := c.ctx(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errors.New("it unpacks to more bytes than its Release file allows")
	}
	return n, err
}
