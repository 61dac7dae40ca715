package oci

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/driver-container/driver-container/distros/failure"
)

// maxWindow bounds the memory, in bytes, that a zstd frame may request: `zstd -19 --long=27` still works.
const maxWindow = 128 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// ErrFormat says that the compressed content of a layer is damaged.
var ErrFormat = failure.New(failure.Content, "damaged compressed content")

// unpacked reads decompressed content. At the end of the content it reads the rest of the source too, so that
// a verifying source sees all of its bytes and can report an error.
type unpacked struct {
	io.Reader
	raw    *recorder
	source io.Reader
	close  func() error
}

// decompress detects gzip, zstd or neither from the first bytes, because media types can be wrong. After an
// error the source stays open.
func decompress(source io.ReadCloser) (io.ReadCloser, error) {
	raw := &recorder{Reader: source}
	in := bufio.NewReaderSize(raw, 256<<10)
	magic, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, raw.classify(err)
		}
		return &unpacked{z, raw, in, func() error { return errors.Join(z.Close(), source.Close()) }}, nil
	case bytes.HasPrefix(magic, zstdMagic):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return &unpacked{z, raw, in, func() error { z.Close(); return source.Close() }}, nil
	}
	return &unpacked{in, raw, in, source.Close}, nil
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if _, err := io.Copy(io.Discard, u.source); err != nil {
			return n, err
		}
	} else if err != nil {
		err = u.raw.classify(err)
	}
	return n, err
}

// recorder keeps the error of the source, which decoders may replace by their own.
type recorder struct {
	io.Reader
	err error
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// classify returns the source's error, or marks a decoder's error as ErrFormat.
func (r *recorder) classify(err error) error {
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

func (u *unpacked) Close() error { return u.close() }

// ErrDiffID says that a layer does not unpack to what the configuration of its image says, so that no container
// runtime unpacks the image.
var ErrDiffID = failure.New(failure.Content, "does not unpack to what the image's configuration says (rootfs.diff_ids): no node can unpack the image")

// CheckDiffID compares the digest of a layer's content with that of the configuration.
func CheckDiffID(got hash.Hash, want v1.Hash) error {
	if sum := hex.EncodeToString(got.Sum(nil)); sum != want.Hex {
		return fmt.Errorf("it %w: it is sha256:%s, not %s", ErrDiffID, sum, want)
	}
	return nil
}

// checking unpacks a layer beside its reader, whose last read returns what is wrong with the content.
type checking struct {
	io.ReadCloser
	copy *io.PipeWriter
	done chan error
}

func checkUnpacked(r io.ReadCloser, want v1.Hash) io.ReadCloser {
	content, copied := io.Pipe()
	c := &checking{r, copied, make(chan error, 1)}
	go func() {
		sum := sha256.New()
		unpacked, err := decompress(content)
		if err == nil {
			_, err = io.Copy(sum, unpacked)
		}
		if err == nil {
			err = CheckDiffID(sum, want)
		}
		_ = content.CloseWithError(err) // never fails
		c.done <- err
	}()
	return c
}

func (c *checking) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.copy.Write(p[:n]) // an error is that of the other end, which done has
	if errors.Is(err, io.EOF) {
		_ = c.copy.Close() // never fails
		if wrong := <-c.done; wrong != nil {
			err = wrong
		}
		c.done <- nil
	}
	return n, err
}

func (c *checking) Close() error {
	return errors.Join(c.copy.CloseWithError(io.ErrClosedPipe), c.ReadCloser.Close())
}
