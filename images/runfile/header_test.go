package runfile_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/runfile"
)

// head is the head of an archive as NVIDIA's makeself 1.6.0-nv4 writes it.
const head = `#! /bin/sh
CRCsum=1234567890
MD5=0123456789abcdef0123456789abcdef
skip=1022
skip_decompress=900
size_decompress=122
label="NVIDIA Accelerated Graphics Driver for Linux-x86_64 440.44"
version_string=440.44
pkg_version=0
script=./nvidia-installer
targetdir=NVIDIA-Linux-x86_64-440.44
scriptargs=""
keep=n
add_this_kernel=n
apply_patch=n
TMPROOT=${TMPDIR:=/tmp}
TARGET_OS="Linux"
TARGET_ARCH="x86_64"
`

func edit(old, replacement string) string { return strings.Replace(head, old, replacement, 1) }

func TestOpen(t *testing.T) {
	t.Parallel()
	want := runfile.Header{CRC: 1234567890, MD5: "0123456789abcdef0123456789abcdef", Skip: 1022, SkipDecompress: 900, SizeDecompress: 122,
		Label: "NVIDIA Accelerated Graphics Driver for Linux-x86_64 440.44", Version: "440.44", PkgVersion: "0",
		Script: "./nvidia-installer", TargetDir: "NVIDIA-Linux-x86_64-440.44", TargetOS: "Linux", TargetArch: "x86_64"}
	noMD5, arm, bigCRC := want, want, want
	noMD5.MD5, arm.TargetArch, bigCRC.CRC = "", "aarch64", 1<<32-1
	for name, test := range map[string]struct {
		text string
		want runfile.Header
	}{
		"makeself's":             {head, want},
		"MD5 not computed":       {edit("0123456789abcdef0123456789abcdef", strings.Repeat("0", 32)), noMD5},
		"arm":                    {edit(`"x86_64"`, "aarch64"), arm},
		"largest CRC":            {edit("1234567890", "4294967295"), bigCRC},
		"a variable we know not": {edit("keep=n\n", "keep=n\nneed_root=y\n"), want},
	} {
		r, err := runfile.Open(iotest.OneByteReader(strings.NewReader(test.text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		assert.Samef(t, test.want, r.Header(), "%s: -want +got", name)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, message string }{
		"nothing":              {"", "line 1"},
		"cut off":              {head[:200], "the file ends there"},
		"cut off before end":   {strings.TrimSuffix(head, "\n"), "line 18"},
		"a zip":                {"PK\x03\x04\n" + head, "shell script"},
		"another shebang":      {edit("#! /bin/sh", "#! /bin/bash"), "shell script"},
		"plain makeself":       {edit("CRCsum=1234567890\nMD5=", "# This script was generated using Makeself 2.4\nMD5="), "NAME=value"},
		"order":                {edit("CRCsum=1234567890\nMD5=0123456789abcdef0123456789abcdef", "MD5=0123456789abcdef0123456789abcdef\nCRCsum=1"), "where CRCsum belongs"},
		"CRC of 33 bits":       {edit("1234567890", "4294967296"), "32-bit"},
		"negative CRC":         {edit("1234567890", "-1"), "32-bit"},
		"short MD5":            {edit("MD5=01", "MD5="), "32 hexadecimal"},
		"upper-case MD5":       {edit("abcdef", "ABCDEF"), "32 hexadecimal"},
		"skip backwards":       {edit("skip=1022", "skip=3"), "into the head"},
		"skip not the sum":     {edit("skip=1022", "skip=1023"), "plus"},
		"skip overflows":       {edit("skip=1022", "skip=99999999999999999999"), "line number"},
		"negative skip":        {edit("skip=1022", "skip=-1022"), "line number"},
		"negative size":        {edit("size_decompress=122", "size_decompress=-5"), "line number"},
		"command substitution": {edit("440.44\npkg", "$(reboot)\npkg"), "not accepted"},
		"in quotes":            {edit("NVIDIA Acc", "`reboot` Acc"), "not accepted"},
		"second command":       {edit("pkg_version=0", "pkg_version=0;reboot"), "not accepted"},
		"open quote":           {edit(`Linux-x86_64 440.44"`, `Linux-x86_64 440.44`), "not accepted"},
		"escaped quote":        {edit(`label="NVIDIA`, `label="\"NVIDIA`), "not accepted"},
		"other expansion":      {edit("${TMPDIR:=/tmp}", "${HOME:=/tmp}"), "not accepted"},
		"NUL":                  {edit("keep=n", "keep=\x00"), "not accepted"},
		"no assignment":        {edit("keep=n", "exit 0"), "NAME=value"},
		"odd name":             {edit("keep=n", "9keep=n"), "NAME=value"},
		"twice":                {edit("keep=n", "label=n"), "second time"},
		"version climbs":       {edit("version_string=440.44", "version_string=../../etc"), "not a version"},
		"version climbs later": {edit("version_string=440.44", "version_string=4..4"), "not a version"},
		"no version":           {edit("version_string=440.44", "version=440.44"), "not a version"},
		"other system":         {edit(`"Linux"`, `"FreeBSD"`), "only Linux"},
		"no architecture":      {edit(`"x86_64"`, `""`), "TARGET_ARCH"},
		"endless line":         {edit("440.44\"", strings.Repeat("x", 1<<20)+"\""), "longer than"},
		"endless head":         {edit("TARGET_ARCH=\"x86_64\"\n", fill(40)), "no TARGET_ARCH"},
	} {
		_, err := runfile.Open(strings.NewReader(test.text))
		if !errors.Is(err, runfile.ErrHeader) || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: error %v; want ErrHeader with %q", name, err, test.message)
		}
	}
}

// fill returns n variables with different names.
func fill(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("v" + strings.Repeat("x", i) + "=1\n")
	}
	return b.String()
}

func TestOpenPassesReadErrors(t *testing.T) {
	t.Parallel()
	_, err := runfile.Open(iotest.ErrReader(errBroken))
	if !errors.Is(err, errBroken) || errors.Is(err, runfile.ErrHeader) {
		t.Errorf("error %v; want that of the reader alone", err)
	}
}

var errBroken = errors.New("broken wire")

func FuzzOpen(f *testing.F) {
	f.Add(head)
	f.Add(edit("keep=n", "keep=\"\\"))
	f.Add(head[:100])
	f.Fuzz(func(t *testing.T, text string) {
		r, err := runfile.Open(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, runfile.ErrHeader) {
				t.Errorf("error %v is of no kind", err)
			}
			return
		}
		h := r.Header()
		if h.Skip < 7 || strings.ContainsAny(h.Version, "/$`\n") {
			t.Errorf("accepted %+v", h)
		}
	})
}
