package runfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Header has the variables at the head of an archive's stub, as makeself 1.6.0-nv2 and later write them. They
// are data: nothing in them is ever evaluated.
type Header struct {
	// CRC is the POSIX cksum of everything from line 4 to the end of the file.
	CRC uint32
	// MD5 is the MD5 of the same bytes in lower-case hexadecimal; empty when the archive has none.
	MD5 string
	// Skip is the line, counted from 1, at which the payload starts.
	Skip int
	// SkipDecompress is the line at which the embedded decompressor starts, SizeDecompress its number of lines;
	// both 0 when there is none.
	SkipDecompress, SizeDecompress int
	// Label is the description, for instance "NVIDIA Accelerated Graphics Driver for Linux-x86_64 440.44".
	Label string
	// Version is the driver's version in its original text, PkgVersion the revision of the package.
	Version, PkgVersion string
	// Script is what the stub would run after unpacking, in the directory TargetDir. This package uses neither.
	Script, TargetDir string
	// TargetOS is "Linux", TargetArch "x86_64" or "aarch64".
	TargetOS, TargetArch string
}

// The head has 18 lines; the longest is a label of about 70 bytes. Later makeself versions may add a
// variable, so the parser reads a few lines more until it has seen TARGET_ARCH, the last of them.
const (
	maxHeaderLine  = 1024
	maxHeaderLines = 32
	summedFromLine = 4
)

// parseHeader reads the head from r. It returns the header, the bytes that it consumed, and the offset in
// them at which the summed bytes begin.
func parseHeader(r *bufio.Reader) (h Header, raw []byte, summed int, err error) {
	vars := make(map[string]string)
	for line := 1; ; line++ {
		if line > maxHeaderLines {
			return h, nil, 0, headerErr(line, "no TARGET_ARCH in the first %d lines", maxHeaderLines)
		}
		if line == summedFromLine {
			summed = len(raw)
		}
		text, err := headerLine(r)
		if err != nil {
			return h, nil, 0, fmt.Errorf("read line %d of the archive's head: %w", line, err)
		}
		raw = append(raw, text...)
		raw = append(raw, '\n')
		name, err := headerVariable(line, string(text), vars)
		if err != nil {
			return h, nil, 0, err
		}
		if name == "TARGET_ARCH" {
			h, err = newHeader(vars, line)
			return h, raw, summed, err
		}
	}
}

func headerErr(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %w", line, fmt.Sprintf(format, args...), ErrHeader)
}

// headerLine reads one line without its newline.
func headerLine(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file ends there: %w", ErrHeader)
	case errors.Is(err, bufio.ErrBufferFull), err == nil && len(text) > maxHeaderLine:
		return nil, fmt.Errorf("longer than %d bytes: %w", maxHeaderLine, ErrHeader)
	case err != nil:
		return nil, err
	}
	return bytes.Clone(text[:len(text)-1]), nil
}

// fixedLines are the variables with a fixed line: the sums cover the file from line 4, and other readers of
// these archives expect them there.
var fixedLines = map[int]string{2: "CRCsum", 3: "MD5", 4: "skip", 5: "skip_decompress", 6: "size_decompress"}

// headerVariable checks one line and stores its variable in vars. Line 1 has none.
func headerVariable(line int, text string, vars map[string]string) (name string, err error) {
	if line == 1 {
		if text != "#! /bin/sh" && text != "#!/bin/sh" {
			return "", headerErr(line, "%q is not the first line of a shell script", clip(text))
		}
		return "", nil
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok || !isName(name) {
		return "", headerErr(line, "%q is not of the form NAME=value", clip(text))
	}
	if want := fixedLines[line]; want != "" && name != want {
		return "", headerErr(line, "variable %s where %s belongs", clip(name), want)
	}
	if _, twice := vars[name]; twice {
		return "", headerErr(line, "variable %s a second time", name)
	}
	vars[name], err = unquote(value)
	if err != nil {
		return "", headerErr(line, "variable %s: %v", name, err)
	}
	return name, nil
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// unquote accepts a bare word or a double-quoted text. It refuses everything that a shell would expand, with
// one exception that every archive has: TMPROOT=${TMPDIR:=/tmp}.
func unquote(value string) (string, error) {
	const tmpdir = "${TMPDIR:=/tmp}"
	if value == tmpdir {
		return value, nil
	}
	bare := true
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		bare, value = false, value[1:len(value)-1]
	}
	for _, c := range []byte(value) {
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._/+-:,@%~=", c) >= 0
		if plain || !bare && c >= ' ' && c < 0x7f && strings.IndexByte("\"$`\\", c) < 0 {
			continue
		}
		return "", fmt.Errorf("character %q in its value is not accepted", c)
	}
	return value, nil
}

// newHeader converts the variables into a Header. lines is the number of lines in the head.
func newHeader(vars map[string]string, lines int) (Header, error) {
	h := Header{Label: vars["label"], Version: vars["version_string"], PkgVersion: vars["pkg_version"], Script: vars["script"],
		TargetDir: vars["targetdir"], TargetOS: vars["TARGET_OS"], TargetArch: vars["TARGET_ARCH"]}
	crc, err := strconv.ParseUint(vars["CRCsum"], 10, 32)
	if err != nil {
		return h, headerErr(2, "CRCsum %q is not a 32-bit number", clip(vars["CRCsum"]))
	}
	h.CRC = uint32(crc)
	if h.MD5, err = parseMD5(vars["MD5"]); err != nil {
		return h, err
	}
	for line, number := range map[int]*int{4: &h.Skip, 5: &h.SkipDecompress, 6: &h.SizeDecompress} {
		n, err := strconv.ParseUint(vars[fixedLines[line]], 10, 31)
		if err != nil {
			return h, headerErr(line, "%s %q is not a line number", fixedLines[line], clip(vars[fixedLines[line]]))
		}
		*number = int(n)
	}
	switch {
	case h.Skip <= lines:
		return h, headerErr(4, "skip=%d points into the head itself", h.Skip)
	case h.Skip != h.SkipDecompress+h.SizeDecompress:
		return h, headerErr(4, "skip=%d is not skip_decompress=%d plus size_decompress=%d", h.Skip, h.SkipDecompress, h.SizeDecompress)
	case !validVersion(h.Version):
		return h, headerErr(8, "version_string %q is not a version", clip(h.Version))
	case h.TargetOS != "Linux":
		return h, headerErr(lines, "TARGET_OS is %q where only Linux is supported", clip(h.TargetOS))
	case h.TargetArch == "":
		return h, headerErr(lines, "TARGET_ARCH is empty")
	}
	return h, nil
}

// parseMD5 returns "" for 32 zeros, which mean "not computed".
func parseMD5(s string) (string, error) {
	if len(s) != 32 || strings.Trim(s, "0123456789abcdef") != "" {
		return "", headerErr(3, "MD5 %q is not 32 hexadecimal digits", clip(s))
	}
	if strings.Trim(s, "0") == "" {
		return "", nil
	}
	return s, nil
}

// validVersion accepts text that is safe in a path: a digit first, then digits, letters, dots, plus, minus
// and underscore.
func validVersion(s string) bool {
	if s == "" || len(s) > 64 || s[0] < '0' || s[0] > '9' || strings.Contains(s, "..") {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(".+-_", c) >= 0) {
			return false
		}
	}
	return true
}

// clip shortens hostile text for messages. The caller prints it with %q.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
