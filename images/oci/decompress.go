package oci

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
)

// unpacked reads decompressed content. At the end of the content it reads the rest of the source
// too, so that a verifying source sees all of its bytes and can report an error.
type unpacked struct {
	io.ReadCloser
	raw    io.Reader
	source io.Closer
}

// checking unpacks a layer beside its reader. Its last read returns what is wrong with the content.
type checking struct {
	io.Reader
	io.Closer
	copied *io.PipeWriter
	done   chan error
}

func checkUnpacked(r io.ReadCloser, want v1.Hash) io.ReadCloser {
	content, copied := io.Pipe()
	c := &checking{io.TeeReader(r, copied), r, copied, make(chan error, 1)}
	go func() {
		err := checkContent(content, want)
		_ = content.CloseWithError(err) // never fails
		c.done <- err
		close(c.done)
	}()
	return c
}

// checkContent compares what a layer unpacks to.
func checkContent(content io.ReadCloser, want v1.Hash) error {
	unpacked, err := Decompress(content)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, unpacked)
	if err != nil {
		return err
	}
	return CheckDiffID(sum, want)
}

func (c *checking) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		_ = c.copied.Close() // never fails
		err = cmp.Or(<-c.done, err)
	}
	return n, err
}

func (c *checking) Close() error {
	return errors.Join(c.copied.CloseWithError(io.ErrClosedPipe), c.Closer.Close())
}

// Decompress detects the compression from the first bytes. Close closes the source, and an error
// does.
func Decompress(source io.ReadCloser) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(source, 256<<10)
	kind, err := compression.Detect(in)
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	out, err := compression.NewReader(in, kind)
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return &unpacked{out, in, source}, nil
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if _, err := io.Copy(io.Discard, u.raw); err != nil {
			return n, err
		}
	}
	return n, err
}

func (u *unpacked) Close() error { return errors.Join(u.ReadCloser.Close(), u.source.Close()) }

// ErrDiffID says that a layer does not unpack to what the configuration of its image says, so that
// no container runtime unpacks the image.
var ErrDiffID = failure.New(
	failure.Content,
	"does not unpack to what the image's configuration says (rootfs.diff_ids): no node can unpack the image",
)

// CheckDiffID compares the digest of a layer's content with that of the configuration.
func CheckDiffID(got hash.Hash, want v1.Hash) error {
	if sum := hex.EncodeToString(got.Sum(nil)); sum != want.Hex {
		return fmt.Errorf("it %w: it is sha256:%s, not %s", ErrDiffID, sum, want)
	}
	return nil
}
