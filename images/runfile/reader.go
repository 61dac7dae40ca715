// Package runfile reads NVIDIA's self-extracting driver archives (NVIDIA-Linux-*.run) and the
// .manifest inside them. It never executes any part of them.
//
// An archive is a shell stub, an optional embedded decompressor, and one compressed tar up to the
// end of the file. [Open] reads the variables at the head of the stub, [Reader.Extract] the members
// of the tar in one pass. [ParseManifest] reads the list of files and their destinations, and
// [Manifest.Install] turns it into paths for a target system. [Unpack] is for archives that are
// such a tar without a stub.
//
// The head has sums that only detect damage. The caller knows the SHA-256 of the whole file, and
// keeps apart what Extract delivers until it has compared that. The package does not write files,
// does not examine the machine that it runs on, and does not make soname links that the manifest
// lacks.
package runfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
)

// Kinds of failure, for errors.Is. An error of this package wraps exactly one of them, or the error
// of the caller's own reader or callback.
var (
	// ErrHeader: the file does not begin like an NVIDIA .run archive.
	ErrHeader = failure.New(failure.Content, "not an NVIDIA .run archive")
	// ErrPayload: the payload cannot be decompressed or is not a well-formed tar.
	ErrPayload = failure.New(failure.Content, "payload cannot be unpacked")
	// ErrUnsafe: the payload has something dangerous that no NVIDIA archive has: absolute names,
	// names with "..", links, devices, a name twice.
	ErrUnsafe = failure.New(failure.Content, "unsafe archive member")
	// ErrTooLarge: a bound was exceeded.
	ErrTooLarge = failure.New(failure.Content, "archive exceeds a limit")
	// ErrManifest: the .manifest is malformed or requires something impossible.
	ErrManifest = failure.New(failure.Content, "invalid .manifest")
)

// Bounds of what precedes the payload, in bytes and lines. The head has 18 lines, the longest is a
// label of about 70 bytes; stub and embedded decompressor of 610.57.04 have 160,635 bytes.
const (
	maxStub        = 16 << 20
	maxHeaderLine  = 1024
	maxHeaderLines = 32
)

// Reader reads one archive from a stream, once.
type Reader struct {
	Version    string // of the driver, in its original text
	TargetArch string // "x86_64", "aarch64"

	src   *bufio.Reader
	lines int // newlines that were read
	skip  int // line, counted from 1, at which the payload starts
	left  int64
}

// Open reads the head of the archive in r, a few kilobytes. Nothing in it is ever evaluated. Errors
// wrap [ErrHeader] or the error of r.
func Open(r io.Reader) (*Reader, error) {
	a := &Reader{src: bufio.NewReaderSize(r, 64<<10), left: maxStub}
	if err := a.head(); err != nil {
		return nil, fmt.Errorf("open .run archive: line %d: %w", a.lines+1, err)
	}
	return a, nil
}

// head reads up to TARGET_ARCH, the last variable of the head.
func (r *Reader) head() error {
	for r.TargetArch == "" {
		if r.lines == maxHeaderLines {
			return fmt.Errorf("no TARGET_ARCH in the first %d lines: %w", maxHeaderLines, ErrHeader)
		}
		text, err := r.src.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file ends there: %w", ErrHeader)
		case len(text) > maxHeaderLine:
			return fmt.Errorf("longer than %d bytes: %w", maxHeaderLine, ErrHeader)
		case err != nil:
			return err
		}
		line := strings.TrimSuffix(string(text), "\n")
		if err := r.variable(line); err != nil {
			return fmt.Errorf("%q %w: %w", clip(line), err, ErrHeader)
		}
		r.lines++
		r.left -= int64(len(text))
	}
	if r.skip <= r.lines || !validVersion(r.Version) {
		return fmt.Errorf(
			"the lines before it name no version, or no start of the payload behind them: %w",
			ErrHeader,
		)
	}
	return nil
}

// variable takes what counts of one line.
func (r *Reader) variable(line string) (err error) {
	name, value, ok := strings.Cut(line, "=")
	value = strings.Trim(value, `"`)
	switch {
	case r.lines == 0 && line != "#! /bin/sh" && line != "#!/bin/sh":
		return errors.New("is not the first line of a shell script")
	case r.lines > 0 && !ok:
		return errors.New("is not of the form NAME=value")
	case name == "skip":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 31)
		r.skip = int(n)
	case name == "version_string":
		r.Version = value
	case name == "TARGET_ARCH":
		r.TargetArch = value
		if value == "" {
			return errors.New("is empty")
		}
	}
	return err
}

// Extract unpacks the payload and calls add for each regular file in the archive's order. It checks
// folders but does not report them, because the manifest implies them. The mode of a file has only
// permission bits: a set-uid bit comes only from the manifest. add must read what it needs of the
// content before it returns. Its error ends the extraction, and Extract returns it, wrapped. Bad
// content is [ErrPayload], [ErrUnsafe] or [ErrTooLarge]. xz is that of [Unpack].
func (r *Reader) Extract(xz compression.OpenXZ, add func(Member, io.Reader) error) error {
	if err := r.extract(xz, add); err != nil {
		return fmt.Errorf("extract NVIDIA driver archive %s for %s: %w", r.Version, r.TargetArch, err)
	}
	return nil
}

func (r *Reader) extract(xz compression.OpenXZ, add func(Member, io.Reader) error) error {
	if err := r.skipStub(); err != nil {
		return err
	}
	return Unpack(r.src, xz, false, add)
}

// skipStub finds the payload. Like `tail -n +skip`, it counts newlines from the start of the file,
// through the rest of the stub and the binary decompressor.
func (r *Reader) skipStub() error {
	for r.lines < r.skip-1 {
		text, err := r.src.ReadSlice('\n')
		r.lines += bytes.Count(text, []byte("\n"))
		r.left -= int64(len(text))
		switch {
		case r.left < 0:
			return fmt.Errorf("the payload is not within the first %d bytes: %w", maxStub, ErrTooLarge)
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the file ends before its payload at line %d: %w", r.skip, ErrPayload)
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return nil
}

// validVersion accepts text that is safe in a path: a digit first, then digits, letters, dots,
// plus, minus and underscore.
func validVersion(s string) bool {
	return versionShape.MatchString(s) && !strings.Contains(s, "..")
}

var versionShape = regexp.MustCompile(`^[0-9][0-9A-Za-z.+_-]{0,63}$`)

// clip shortens hostile text for messages. The caller prints it with %q.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
