// Package makeself generates .run archives with the header layout, manifest and payload of
// NVIDIA's, for tests. Real archives are not available everywhere. The contents of real drivers
// are, in distributions' packages.
//
// [FromTree] takes a driver in a directory, laid out as in an image, and returns an [Archive];
// [Archive.WriteFile] writes it. The result is not a copy of any archive of NVIDIA's: the stub is
// this package's own and refuses to run, the sums in its head are zero, since nothing reads them,
// and a few types of the manifest stand for all; images/runfile has real manifests with the others.
package makeself

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Member is one file of the payload and its line in the manifest.
type Member struct {
	// Name is the path in the tar, without ./ in front: libcuda.so.535.261.03, kernel/nvidia/nv.c,
	// 32/libcuda.so.535.261.03. For links, which have no tar member, it is the link's own name.
	Name string
	// Mode is the file's permission in the tar and in the manifest.
	Mode fs.FileMode
	// Line is the rest of the member's manifest line, after FILE and MODE: "CUDA_LIB NATIVE /
	// MODULE:gpgpu". A member with an empty Line is in the tar only, like makeself.sh and
	// pkg-history.txt in NVIDIA's archives.
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
	Version, Arch string // of the driver; x86_64 or aarch64
	Compression   string // gzip, xz or zstd, always the fastest level; none, which readers refuse
	Decompressor  []byte // binary data between stub and payload
	// written in the order of a hash of their names: real archives have that of a directory on disk
	Members  []Member
	Trailer  []byte // inside the compressed payload, after the end of the tar
	Manifest []byte // replaces the generated .manifest
	RawTar   []byte // replaces the whole tar, for tests with invalid data
}

// Name returns the file name under which NVIDIA would publish the archive.
func (a *Archive) Name() string { return fmt.Sprintf("NVIDIA-Linux-%s-%s.run", a.Arch, a.Version) }

// WriteFile writes the archive to a file, which gets its name only when it is complete.
func (a *Archive) WriteFile(ctx context.Context, name string) error {
	out, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(a.write(ctx, out), out.Close()); err != nil {
		return errors.Join(fmt.Errorf("generate archive %s: %w", name, err), os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), name)
}

// Encode returns the archive as bytes, for small ones.
func (a *Archive) Encode(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	err := a.write(ctx, &out)
	return out.Bytes(), err
}

func (a *Archive) write(ctx context.Context, w io.Writer) error {
	head := []byte(a.stub())
	if len(a.Decompressor) > 0 {
		head = append(append(head, a.Decompressor...), '\n')
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	c, err := compress(ctx, w, a.Compression)
	if err != nil {
		return err
	}
	if a.RawTar != nil {
		_, err = c.Write(a.RawTar)
	} else {
		err = writeTar(ctx, c, a.entries())
	}
	_, trailed := c.Write(a.Trailer)
	return errors.Join(err, trailed, c.Close())
}

// compress compresses as NVIDIA's makeself does, without an integrity check of xz.
func compress(ctx context.Context, w io.Writer, compression string) (io.WriteCloser, error) {
	switch compression {
	case "gzip":
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	case "xz":
		cmd := exec.CommandContext(ctx, "xz", "-0", "-C", "none", "-T2", "-c")
		cmd.Stdout = w
		stdin, err := cmd.StdinPipe()
		return &pipe{stdin, cmd}, errors.Join(err, cmd.Start())
	}
	if compression == "none" {
		return plain{w}, nil
	}
	return nil, fmt.Errorf("unknown compression %q: gzip, xz, zstd or none", compression)
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// pipe writes to a program; Close waits for the program's end.
type pipe struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *pipe) Close() error { return errors.Join(p.WriteCloser.Close(), p.cmd.Wait()) }

// stub returns the shell script up to END_OF_STUB. It refuses to run.
func (a *Archive) stub() string {
	const head, tail = `#! /bin/sh
CRCsum=0
MD5=00000000000000000000000000000000
skip=SKIP
skip_decompress=LINES
size_decompress=SIZE
label="DESCRIPTION VERSION"
version_string=VERSION
pkg_version=0
script=./nvidia-installer
targetdir=TARGET
scriptargs=""
keep=n
add_this_kernel=n
apply_patch=n
TMPROOT=${TMPDIR:=/tmp}
TARGET_OS="Linux"
TARGET_ARCH="ARCH"
`, `echo "This is a generated test archive. It holds a driver's files, but no installer." >&2
exit 1
END_OF_STUB
`
	lines := strings.Count(head+tail, "\n") + 1
	size := 0
	if len(a.Decompressor) > 0 {
		size = bytes.Count(a.Decompressor, []byte{'\n'}) + 1
	}
	return strings.NewReplacer(
		"SKIP",
		fmt.Sprint(lines+size),
		"LINES",
		fmt.Sprint(lines),
		"SIZE",
		fmt.Sprint(size),
		"DESCRIPTION",
		description+a.Arch,
		"VERSION",
		a.Version,
		"TARGET\n",
		strings.TrimSuffix(a.Name(), ".run")+"\n",
		"\"ARCH\"",
		`"`+a.Arch+`"`,
	).Replace(head) + tail
}

const description = "NVIDIA Accelerated Graphics Driver for Linux-"
