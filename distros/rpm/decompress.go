package rpm

import (
	"bufio"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
)

// unpack opens a file of the store, detects the compression by the first bytes and passes the unpacked
// content to read. It returns an error if that content is longer than limit bytes or differs from want, the
// values of repomd.xml.
func unpack(stop func() error, file string, want checksum, limit int64, read func(io.Reader) error) error {
	f, err := os.Open(file) //nolint:gosec // a path in the store
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	in, err := decompress(bufio.NewReaderSize(f, 128<<10))
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	defer in.Close() //nolint:errcheck // read only
	if want.Size > limit {
		return fmt.Errorf("it has %d bytes, more than the %d allowed", want.Size, limit)
	}
	if want.Size > 0 {
		limit = want.Size
	}
	var sum hash.Hash
	unpacked := io.Reader(in)
	switch {
	case want.SHA256 != "":
		sum = sha256.New()
	case want.SHA512 != "":
		sum = sha512.New()
	}
	if sum != nil {
		unpacked = io.TeeReader(in, sum)
	}
	c := &bounded.Limited{Reader: unpacked, Left: limit, Err: errors.New("it unpacks to more bytes than repomd.xml allows"), Stop: stop}
	if err := read(c); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	if size := limit - c.Left; want.Size > 0 && size != want.Size {
		return fmt.Errorf("it unpacks to %d bytes, repomd.xml says %d", size, want.Size)
	}
	if sum != nil && hex.EncodeToString(sum.Sum(nil)) != want.Digest() {
		return errors.New("what it unpacks to has another digest than repomd.xml says")
	}
	return nil
}

func decompress(r *bufio.Reader) (io.ReadCloser, error) {
	kind, err := compression.Detect(r)
	if err != nil {
		return nil, err
	}
	return compression.NewReader(r, kind)
}
