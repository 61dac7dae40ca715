package makeself

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // part of the format
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Member is one file of the payload and its line in the manifest.
type Member struct {
	// Name is the path in the tar, without ./ in front: libcuda.so.535.261.03, kernel/nvidia/nv.c,
	// 32/libcuda.so.535.261.03. For links, which have no tar member, it is the link's own name.
	Name string
	// Mode is the file's permission in the tar and in the manifest.
	Mode fs.FileMode
	// Line is the rest of the member's manifest line, after FILE and MODE: "CUDA_LIB NATIVE / MODULE:gpgpu". A
	// member with an empty Line is in the tar only, like makeself.sh and pkg-history.txt in NVIDIA's archives.
	Line string
	// Size is the number of bytes that Open's reader returns.
	Size int64
	// Open returns the content; nil for links.
	Open func() (io.ReadCloser, error)
}

// Bytes returns an Open function for content in memory.
func Bytes(content []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
}

// Archive describes a .run file.
type Archive struct {
	// Version is the driver's, Arch x86_64 or aarch64.
	Version, Arch string
	// Modules are the kernel modules of the manifest's line 4. If empty: nvidia nvidia-uvm nvidia-modeset
	// nvidia-drm.
	Modules []string
	// Compression is "gzip", "xz" or "zstd", or "none", which readers should refuse. Empty means xz.
	Compression string
	// Fast compresses faster and worse: for tests that are not about compression.
	Fast bool
	// Decompressor is binary data to embed between stub and payload; empty for none.
	Decompressor []byte
	// NoMD5 leaves the MD5 at 32 zeros: not computed.
	NoMD5 bool
	// Time is the modification time of all members.
	Time time.Time
	// Members are written in the order of a hash of their names: real archives have the order of a directory on
	// disk.
	Members []Member
	// Trailer is appended inside the compressed payload, after the end of the tar.
	Trailer []byte
	// Manifest replaces the generated .manifest.
	Manifest []byte
	// RawTar replaces the whole tar, for tests with invalid data.
	RawTar []byte
}

// Name returns the file name under which NVIDIA would publish the archive.
func (a *Archive) Name() string { return fmt.Sprintf("NVIDIA-Linux-%s-%s.run", a.Arch, a.Version) }

// WriteFile writes the archive to a file, which gets its name only when it is complete.
func (a *Archive) WriteFile(ctx context.Context, name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("generate archive %s: %w", name, err)
		}
	}()
	dir := filepath.Dir(name)
	body, err := os.CreateTemp(dir, ".runfile-body-*")
	if err != nil {
		return err
	}
	defer os.Remove(body.Name()) //nolint:errcheck // a leftover is harmless
	defer body.Close()           //nolint:errcheck // read back in full below
	if err := a.writeBody(ctx, body); err != nil {
		return err
	}
	out, err := os.CreateTemp(dir, ".runfile-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // gone after the rename
	if err := errors.Join(a.assemble(out, body), out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), name)
}

// writeBody writes everything from line 4 on, over which the checksums are computed.
func (a *Archive) writeBody(ctx context.Context, w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	if _, err := buffered.WriteString(a.stub()); err != nil {
		return err
	}
	if len(a.Decompressor) > 0 {
		if _, err := buffered.Write(append(bytes.Clone(a.Decompressor), '\n')); err != nil {
			return err
		}
	}
	c, err := a.compressor(ctx, buffered)
	if err != nil {
		return err
	}
	if a.RawTar != nil {
		_, err = c.Write(a.RawTar)
	} else {
		err = a.writeTar(ctx, c)
	}
	if err == nil {
		_, err = c.Write(a.Trailer)
	}
	return errors.Join(err, c.Close(), buffered.Flush())
}

// assemble writes lines 1 to 3 with the sums of the body, and the body.
func (a *Archive) assemble(out io.Writer, body io.ReadSeeker) error {
	crc, sum := newCksum(), md5.New() //nolint:gosec // part of the format
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(crc, sum), body); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if a.NoMD5 {
		digest = "00000000000000000000000000000000"
	}
	if _, err := fmt.Fprintf(out, "#! /bin/sh\nCRCsum=%d\nMD5=%s\n", crc.sum(), digest); err != nil {
		return err
	}
	_, err := io.Copy(out, body)
	return err
}

// Encode returns the archive as bytes, for small ones.
func (a *Archive) Encode(ctx context.Context) ([]byte, error) {
	var body, out bytes.Buffer
	if err := a.writeBody(ctx, &body); err != nil {
		return nil, fmt.Errorf("generate archive %s: %w", a.Name(), err)
	}
	if err := a.assemble(&out, bytes.NewReader(body.Bytes())); err != nil {
		return nil, fmt.Errorf("generate archive %s: %w", a.Name(), err)
	}
	return out.Bytes(), nil
}
