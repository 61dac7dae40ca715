package runfile_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
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
	for text, arch := range map[string]string{head: "x86_64", edit(`"x86_64"`, "aarch64"): "aarch64", edit("keep=n\n", "keep=n\nneed_root=y\n"): "x86_64"} {
		r := require.Value(runfile.Open(iotest.OneByteReader(strings.NewReader(text))))(t)
		assert.Equal(t, "440.44 "+arch, r.Version+" "+r.TargetArch)
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
		"plain makeself":       {edit("MD5=0123456789abcdef0123456789abcdef", "# This script was generated using Makeself 2.4"), "NAME=value"},
		"skip backwards":       {edit("skip=1022", "skip=3"), "no start of the payload"},
		"no skip":              {edit("skip=1022", "skipped=1022"), "no start of the payload"},
		"skip overflows":       {edit("skip=1022", "skip=99999999999999999999"), "out of range"},
		"negative skip":        {edit("skip=1022", "skip=-1022"), "invalid syntax"},
		"version climbs":       {edit("version_string=440.44", "version_string=../../etc"), "name no version"},
		"version climbs later": {edit("version_string=440.44", "version_string=4..4"), "name no version"},
		"command":              {edit("version_string=440.44", "version_string=$(reboot)"), "name no version"},
		"no architecture":      {edit(`"x86_64"`, `""`), "is empty"},
		"endless line":         {edit("440.44\"", strings.Repeat("x", 1<<20)+"\""), "longer than"},
		"endless head":         {edit("TARGET_ARCH=\"x86_64\"\n", strings.Repeat("v=1\n", 40)), "no TARGET_ARCH"},
	} {
		_, err := runfile.Open(strings.NewReader(test.text))
		assert.ErrorIsf(t, err, runfile.ErrHeader, "%s", name)
		assert.ErrorContains(t, err, test.message)
	}
	_, err := runfile.Open(iotest.ErrReader(errBroken))
	if !errors.Is(err, errBroken) || errors.Is(err, runfile.ErrHeader) {
		t.Errorf("error %v; want that of the reader alone", err)
	}
}

var errBroken = errors.New("broken wire")

// FuzzOpen: whatever an archive is, an error is of a kind, and a version is safe in a path.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(head))
	f.Add([]byte(edit("keep=n", "keep=\"\\")))
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a := sample(compression)
		a.Members = a.Members[3:]
		f.Add(encode(f, a))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := runfile.Open(bytes.NewReader(data)); err == nil && strings.ContainsAny(r.Version, "/$`\n") {
			t.Errorf("accepted %+v", r)
		}
		_, err := extract(t, bytes.NewReader(data))
		if err != nil && !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			t.Errorf("error %v is of no kind", err)
		}
	})
}
