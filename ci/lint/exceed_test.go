package lint

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// contentSection is the part of the document whose bounds TestExceeded goes through.
const contentSection = "Bounds on the content of images"

// exceededElsewhere are bounds of that section that a test beside unexported code exceeds.
var exceededElsewhere = map[string]string{
	"images/kernelmodules.maxManifest": "TestManifests in images/kernelmodules",
	"images/driver.maxInflated":        "TestDocumentBounds in images/driver",
	"images/driver.maxTemplate":        "TestDocumentBounds in images/driver",
	"distros/rpm/rpmfile.maxPaths":     "TestPaths in distros/rpm/rpmfile",
	"distros/rpm/rpmfile.maxCPIOName":  "TestPaths in distros/rpm/rpmfile",
}

// exceeded is every bound with input just beyond it, and the kind of error that it gives.
func exceeded(t *testing.T) map[string]struct {
	read func() error
	kind error
} {
	spool := func() *rootfs.Tree { return rootfs.New(newSpool(t), nil) }
	return map[string]struct {
		read func() error
		kind error
	}{
		"images/runfile.maxStub":        {func() error { return run(t, func(a *makeself.Archive) { a.Decompressor = make([]byte, 16<<20) }) }, runfile.ErrTooLarge},
		"images/runfile.maxContent":     {func() error { return runTar(t, tarOf(t, tar.Header{Name: "a", Size: 4<<30 + 1})) }, runfile.ErrTooLarge},
		"images/runfile.maxMembers":     {func() error { return runTar(t, many(t, 20_001)) }, runfile.ErrTooLarge},
		"images/runfile.maxHeaderLine":  {func() error { return head("#! /bin/sh\nCRCsum=" + strings.Repeat("1", 1024) + "\n") }, runfile.ErrHeader},
		"images/runfile.maxHeaderLines": {func() error { return head(longHead(32)) }, runfile.ErrHeader},
		"images/runfile.maxName":        {func() error { return runTar(t, tarOf(t, tar.Header{Name: strings.Repeat("n", 1025)})) }, runfile.ErrUnsafe},
		"images/runfile.maxDepth":       {func() error { return runTar(t, tarOf(t, tar.Header{Name: strings.Repeat("d/", 33) + "n"})) }, runfile.ErrUnsafe},
		"images/runfile.maxManifestBytes": {func() error {
			return manifest(strings.Repeat(strings.Repeat("x", 500)+" 0644 CUDA_ICD\n", 17_000))
		}, runfile.ErrManifest},
		"images/runfile.maxManifestLine": {func() error { return manifest(strings.Repeat("x", 4097) + " 0644 CUDA_ICD\n") }, runfile.ErrManifest},
		"images/runfile.maxEntries":      {func() error { return manifest(strings.Repeat("x 0644 CUDA_ICD\n", 20_001)) }, runfile.ErrManifest},
		"images/runfile.maxPathDepth":    {func() error { return manifest("kernel/x 0644 FIRMWARE INHERIT_PATH_DEPTH:17\n") }, runfile.ErrManifest},

		"distros/dpkg.maxMembers":      {func() error { return deb(t, nil, nil, 65) }, dpkg.ErrFormat},
		"distros/dpkg.maxControl":      {func() error { return deb(t, []repotest.File{{Name: "big", Body: strings.Repeat("x", 8<<20)}}, nil, 0) }, dpkg.ErrFormat},
		"distros/dpkg.maxControlFiles": {func() error { return deb(t, manyFiles(256), nil, 0) }, dpkg.ErrFormat},
		"distros/dpkg.maxData":         {func() error { return deb(t, nil, tarOf(t, tar.Header{Name: "a", Size: 4<<30 + 1}), 0) }, dpkg.ErrFormat},
		"distros/dpkg.maxEntries":      {func() error { return deb(t, nil, many(t, 100_001), 0) }, dpkg.ErrFormat},
		"distros/compression.MaxWindow": {func() error {
			if unpack(compression.XZ, xzDictionary) == nil {
				return nil
			}
			return unpack(compression.Zstd, zstdWindow(28))
		}, compression.ErrTooLarge},

		"distros/rpm/rpmfile.maxIndex": {func() error { return header(0x10000, 16) }, rpmfile.ErrFormat},
		"distros/rpm/rpmfile.maxStore": {func() error { return header(1, 64<<20+1) }, rpmfile.ErrFormat},
		"distros/rpm/rpmfile.maxFiles": {func() error { return rpm(t, repotest.RPM{Name: "a", Unsigned: true, Files: manyFiles(100_001)}) }, rpmfile.ErrFormat},
		"distros/rpm/rpmfile.maxUnpacked": {func() error {
			return rpm(t, repotest.RPM{Name: "a", Unsigned: true, Files: manyFiles(2), Entries: []repotest.Entry{{Tag: 5008, Value: []uint64{4 << 30, 4 << 30}}}})
		}, rpmfile.ErrFormat},

		"distros/elffile.maxSections": {func() error {
			return elf(func(b []byte) { put(b, 60, uint16(0)); put(b, table(b)+32, uint64(1<<18+1)) })
		}, elffile.ErrFormat},
		"distros/elffile.maxSegments": {func() error { return elf(func(b []byte) { put(b, 56, uint16(1<<10+1)) }) }, elffile.ErrFormat},
		"distros/elffile.maxDynamic":  {func() error { return elf(func(b []byte) { put(b, table(b)+2*64+32, uint64(16*(1<<12+1))) }) }, elffile.ErrFormat},
		"distros/elffile.maxNeeded": {func() error {
			return readELF(imagetest.ELF{Needed: strings.Split(strings.Repeat("l ", 257), " ")}.Bytes())
		}, elffile.ErrFormat},
		"distros/elffile.maxName": {func() error { return readELF(imagetest.ELF{Soname: strings.Repeat("l", 1<<10+1)}.Bytes()) }, elffile.ErrFormat},

		"images/layer.maxRatio": {func() error { return unpackLayer(2 << 20) }, rootfs.ErrTooLarge},
		"images/layer.maxSmall": {func() error { return unpackLayer(1) }, rootfs.ErrTooLarge},

		"images/rootfs.maxEntries": {func() error {
			deep, tree := strings.Repeat("/d", 60), spool()
			return repeat(300_000/60+1, func(n int) error { return tree.AddLink(fmt.Sprint(n)+deep, "x") })
		}, rootfs.ErrTooLarge},
		"images/rootfs.maxText": {func() error {
			tree := spool()
			return repeat(64<<20/4096+1, func(n int) error { return tree.AddLink(fmt.Sprint(n), strings.Repeat("t", 4096)) })
		}, rootfs.ErrTooLarge},
		"images/rootfs.maxContent": {func() error { return spool().AddFile("a", 0o644, 16<<30+1, endless{}) }, rootfs.ErrTooLarge},
		"images/rootfs.maxDepth":   {func() error { return spool().AddLink(strings.Repeat("d/", 64)+"l", "x") }, rootfs.ErrTooLarge},
		"images/rootfs.maxName":    {func() error { return spool().AddLink("l", strings.Repeat("t", 4097)) }, rootfs.ErrTooLarge},
		"images/rootfs.maxLinks":   {func() error { return chain(spool(), 41) }, rootfs.ErrUnsafePath},
		"images/rootfs.maxXattrs":  {func() error { return attribute(spool(), 64<<10) }, rootfs.ErrTooLarge},
		"images/rootfs.maxRead": {func() error {
			tree := spool()
			if err := tree.AddFile("a", 0o644, 64<<20+1, endless{}); err != nil {
				return err
			}
			_, err := tree.ReadFile("a")
			return err
		}, rootfs.ErrTooLarge},
	}
}

// TestExceeded goes through the bounds of the document: each is enforced where the bytes are read.
func TestExceeded(t *testing.T) {
	t.Parallel()
	cases := exceeded(t)
	for key, b := range documented(t) {
		_, other := exceededElsewhere[key]
		if _, ok := cases[key]; b.section == contentSection && !ok && !other {
			t.Errorf("%s:%d: no input here exceeds %s: add some", document, b.line, key)
		}
	}
	for key, c := range cases {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			err := c.read()
			assert.ErrorIs(t, err, c.kind)
			t.Log(err)
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func newSpool(t *testing.T) *rootfs.Spool {
	s := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func repeat(n int, f func(int) error) error {
	for i := range n {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

func chain(tree *rootfs.Tree, n int) error {
	err := repeat(n, func(i int) error { return tree.AddLink(fmt.Sprint("l", i), fmt.Sprint("l", i+1)) })
	return errors.Join(err, tree.AddDir("l0/x", 0o755))
}

func attribute(tree *rootfs.Tree, n int) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "a", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": strings.Repeat("c", n)}}
	return tree.Add(h, strings.NewReader(""))
}

func unpackLayer(size int64) error {
	r, err := layer.Open(zeros{size: size})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// tarOf returns a tar of regular files; the content of large ones is missing.
func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Typeflag, h.Mode = tar.TypeReg, 0o644
		require.NoError(t, w.WriteHeader(&h))
	}
	return b.Bytes()
}

// many returns a tar of n empty files.
func many(t *testing.T, n int) []byte {
	t.Helper()
	headers := make([]tar.Header, n)
	for i := range headers {
		headers[i].Name = fmt.Sprint("f", i)
	}
	return tarOf(t, headers...)
}

func manyFiles(n int) []repotest.File {
	all := make([]repotest.File, n)
	for i := range all {
		all[i].Name = fmt.Sprint("f", i)
	}
	return all
}

func run(t *testing.T, change func(*makeself.Archive)) error {
	t.Helper()
	a := &makeself.Archive{Version: "440.44", Arch: "x86_64", Compression: "zstd"}
	change(a)
	data := require.Value(a.Encode(t.Context()))(t)
	r, err := runfile.Open(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return r.Extract(nil, func(runfile.Member, io.Reader) error { return nil })
}

func runTar(t *testing.T, data []byte) error {
	t.Helper()
	return run(t, func(a *makeself.Archive) { a.RawTar = data })
}

func head(text string) error {
	_, err := runfile.Open(strings.NewReader(text))
	return err
}

// longHead is the head of an archive with n lines before the one that ends it.
func longHead(n int) string {
	text := "#! /bin/sh\nCRCsum=1\nMD5=" + strings.Repeat("0", 32) + "\nskip=100\nskip_decompress=100\nsize_decompress=0\n"
	for i := strings.Count(text, "\n"); i < n; i++ {
		text += fmt.Sprintf("X%d=1\n", i)
	}
	return text + "TARGET_ARCH=x86_64\n"
}

func manifest(entries string) error {
	_, err := runfile.ParseManifest(".manifest", strings.NewReader("NVIDIA\n440.44\n \nnvidia\n \n \n./\n./\n"+entries))
	return err
}

// deb reads a package with further control files, its data, and members before the data that readers ignore.
func deb(t *testing.T, control []repotest.File, data []byte, ignored int) error {
	t.Helper()
	text := "Package: a\nVersion: 1\nArchitecture: all\n"
	members := []repotest.Member{{Name: "debian-binary", Data: []byte("2.0\n")},
		{Name: "control.tar.zst", Data: repotest.Compress(t, ".zst", repotest.RawTar(t, append(control, repotest.File{Name: "control", Body: text})...))}}
	for range ignored {
		members = append(members, repotest.Member{Name: "_x"})
	}
	d, err := dpkg.OpenDeb(bytes.NewReader(repotest.AR(append(members, repotest.Member{Name: "data.tar.zst", Data: repotest.Compress(t, ".zst", data)})...)))
	if err != nil {
		return err
	}
	return d.Data(func(*tar.Header, io.Reader) error { return nil })
}

func unpack(kind string, data []byte) error {
	r, err := compression.NewReader(bytes.NewReader(data), kind)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// zstdWindow is the beginning of a frame that asks for a window of 2^n bytes.
func zstdWindow(n byte) []byte { return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (n - 10) << 3, 1, 0, 0} }

// xzDictionary is the beginning of a stream whose block asks for a dictionary of 4 GiB.
var xzDictionary = []byte("\xfd7zXZ\x00\x00\x00\xff\x12\xd9\x41\x02\x00\x21\x01\x28\x00\x00\x00\xe6\xa0\x11\xb3")

func header(count, size uint32) error {
	_, err := rpmfile.ParseHeader(repotest.Words(nil, count, size))
	return err
}

func rpm(t *testing.T, p repotest.RPM) error {
	t.Helper()
	f, err := rpmfile.Open(bytes.NewReader(p.Bytes(t)))
	if err != nil {
		return err
	}
	return f.Payload(func(*tar.Header, io.Reader) error { return nil })
}

// elf reads a library that was changed, with room behind it.
func elf(change func([]byte)) error {
	b := imagetest.ELF{Soname: "l", Note: strings.Repeat("n", 1<<25)}.Bytes()
	change(b)
	return readELF(b)
}

func readELF(b []byte) error {
	_, err := elffile.Read(bytes.NewReader(b), int64(len(b)))
	return err
}

// table is the place of the section table.
func table(b []byte) int { return int(binary.LittleEndian.Uint64(b[40:])) }

func put(b []byte, at int, v any) { _, _ = binary.Encode(b[at:], binary.LittleEndian, v) }

// zeros is a layer of size bytes that unpacks to zeros without end.
type zeros struct {
	v1.Layer
	size int64
}

func (zeros) DiffID() (v1.Hash, error)               { return v1.Hash{}, nil }
func (z zeros) Size() (int64, error)                 { return z.size, nil }
func (z zeros) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(endless{}), nil }
