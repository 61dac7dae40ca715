package dpkg

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testControl = "Package: hello\nVersion: 1.0-1\nArchitecture: amd64\nDescription: greets\n and leaves\n"

// control returns a minimal control.tar.
func control(t testing.TB, more ...repotest.File) []byte {
	t.Helper()
	return repotest.RawTar(t, append([]repotest.File{{Name: "./", Type: tar.TypeDir}, {Name: "./control", Body: testControl}}, more...)...)
}

// debOf returns a .deb with this data.tar, without compression.
func debOf(t testing.TB, entries ...repotest.File) []byte {
	t.Helper()
	return repotest.AR(repotest.Member{Name: "debian-binary", Data: []byte("2.0\n")}, repotest.Member{Name: "control.tar", Data: control(t)}, repotest.Member{Name: "data.tar", Data: repotest.RawTar(t, entries...)})
}

// list reads a whole archive and returns a description of each member of its data.
func list(r io.Reader) (*Deb, []string, error) {
	d, err := OpenDeb(r)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	err = d.Data(func(h *tar.Header, r io.Reader) error {
		body, err := io.ReadAll(r)
		out = append(out, fmt.Sprintf("%c %s %s%s", h.Typeflag, h.Name, h.Linkname, body))
		return err
	})
	return d, out, err
}

var goodData = []repotest.File{
	{Name: "./", Type: tar.TypeDir},
	{Name: "./usr/", Type: tar.TypeDir},
	{Name: "./usr/bin/hello", Body: "#!/bin/sh\n"},
	{Name: "./usr/bin/hi", Link: "./usr/bin/hello", Type: tar.TypeLink},
	{Name: "./usr/bin/hey", Link: "hello", Type: tar.TypeSymlink},
	{Name: "./etc/alternatives/x", Link: "/usr/bin/hello", Type: tar.TypeSymlink},
	{Name: "usr/up", Link: "../../../etc", Type: tar.TypeSymlink},
	{Name: "usr//share/./" + strings.Repeat("long/", 40) + "name", Body: strings.Repeat("x", 1000)},
}

var goodList = []string{
	"5 usr ", "0 usr/bin/hello #!/bin/sh\n", "1 usr/bin/hi usr/bin/hello", "2 usr/bin/hey hello", "2 etc/alternatives/x /usr/bin/hello",
	"2 usr/up ../../../etc", "0 usr/share/" + strings.Repeat("long/", 40) + "name " + strings.Repeat("x", 1000),
}

func TestDeb(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"", ".gz", ".xz", ".zst"} {
		for _, d := range []string{"", ".gz", ".xz", ".zst"} {
			archive := repotest.AR(
				repotest.Member{Name: "debian-binary", Data: []byte("2.0\n")},
				repotest.Member{Name: "_ignored", Data: []byte("odd")},
				repotest.Member{Name: "control.tar" + c, Data: repotest.Compress(t, c, control(t, repotest.File{Name: "md5sums", Body: "0  x\n"}))},
				repotest.Member{Name: "data.tar" + d, Data: repotest.Compress(t, d, repotest.RawTar(t, goodData...))},
				repotest.Member{Name: "_gpgorigin", Data: []byte("later members are ignored")})
			for name, r := range map[string]io.Reader{"plain": bytes.NewReader(archive), "byte by byte": iotest.OneByteReader(bytes.NewReader(archive))} {
				deb, got, err := list(r)
				require.NoErrorf(t, err, "control%s data%s %s", c, d, name)
				assert.Samef(t, goodList, got, "control%s data%s %s", c, d, name)
				if deb.Control.Get("Package") != "hello" || string(deb.Files["md5sums"]) != "0  x\n" || string(deb.Files["control"]) != testControl {
					t.Errorf("control%s data%s: control %q, files %q", c, d, deb.Control, deb.Files)
				}
				assert.Errorf(t, deb.Data(nil), "Data a second time succeeded")
			}
		}
	}
}

func TestDebStopsWithCaller(t *testing.T) {
	t.Parallel()
	d := require.Value(OpenDeb(bytes.NewReader(debOf(t, goodData...))))(t)
	stop := errors.New("enough")
	assert.ErrorIs(t, d.Data(func(*tar.Header, io.Reader) error { return stop }), stop)
	d = require.Value(OpenDeb(bytes.NewReader(debOf(t, goodData...))))(t)
	n := 0
	// The function reads nothing.
	if err := d.Data(func(*tar.Header, io.Reader) error { n++; return nil }); err != nil || n != len(goodList) {
		t.Errorf("%d members, %v", n, err)
	}
}

func TestDebHostile(t *testing.T) {
	t.Parallel()
	binary := repotest.Member{Name: "debian-binary", Data: []byte("2.0\n")}
	ctl, data := repotest.Member{Name: "control.tar", Data: control(t)}, repotest.Member{Name: "data.tar", Data: repotest.RawTar(t, goodData...)}
	good := repotest.AR(binary, ctl, data)
	header := func(s string) []byte { return append([]byte(arMagic), s...) }
	xzData := repotest.Compress(t, ".xz", data.Data)
	flipped := bytes.Clone(xzData)
	flipped[len(flipped)/2] ^= 1
	tests := map[string]struct {
		in   []byte
		want error
	}{
		"empty":                 {nil, ErrFormat},
		"not ar":                {[]byte("PK\x03\x04aaaaaaaaaaaaaa"), ErrFormat},
		"no members":            {[]byte(arMagic), ErrFormat},
		"cut header":            {good[:30], ErrFormat},
		"cut control":           {good[:200], ErrFormat},
		"cut data":              {good[:len(good)-2000], ErrFormat},
		"cut compressed data":   {repotest.AR(binary, ctl, repotest.Member{Name: "data.tar.xz", Data: xzData[:len(xzData)-8]}), ErrFormat},
		"flipped bit":           {repotest.AR(binary, ctl, repotest.Member{Name: "data.tar.xz", Data: flipped}), ErrFormat},
		"wrong magic of header": {bytes.Replace(good, []byte("`\n"), []byte("xx"), 1), ErrFormat},
		"negative size":         {header(fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10s`\n", "debian-binary", 0, 0, 0, "0", "-1")), ErrFormat},
		"hex size":              {header(fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10s`\n", "debian-binary", 0, 0, 0, "0", "0x4")), ErrFormat},
		"blank in size":         {header(fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10s`\n", "debian-binary", 0, 0, 0, "0", "1 4")), ErrFormat},
		"nameless member":       {repotest.AR(repotest.Member{Name: "", Data: nil}), ErrFormat},
		"path as member":        {repotest.AR(binary, repotest.Member{Name: "../control.tar", Data: nil}), ErrFormat},
		"wrong padding":         {bytes.Replace(repotest.AR(binary, repotest.Member{Name: "_x", Data: []byte("y")}, ctl, data), []byte("y\n"), []byte("yz"), 1), ErrFormat},
		"no debian-binary":      {repotest.AR(ctl, data), ErrFormat},
		"format 3":              {repotest.AR(repotest.Member{Name: "debian-binary", Data: []byte("3.0\n")}, ctl, data), ErrFormat},
		"huge debian-binary":    {repotest.AR(repotest.Member{Name: "debian-binary", Data: make([]byte, 100)}, ctl, data), ErrFormat},
		"wrong order":           {repotest.AR(binary, data, ctl), ErrFormat},
		"foreign member":        {repotest.AR(binary, repotest.Member{Name: "extra", Data: nil}, ctl, data), ErrFormat},
		"no data":               {repotest.AR(binary, ctl), ErrFormat},
		"foreign data":          {repotest.AR(binary, ctl, repotest.Member{Name: "data.zip", Data: nil}), ErrFormat},
		"unknown compression":   {repotest.AR(binary, ctl, repotest.Member{Name: "data.tar.bz3", Data: data.Data}), ErrFormat},
		"not what it says":      {repotest.AR(binary, ctl, repotest.Member{Name: "data.tar.xz", Data: data.Data}), ErrFormat},
		"gzip that is not":      {repotest.AR(binary, repotest.Member{Name: "control.tar.gz", Data: []byte("x")}, data), ErrFormat},
		"no control":            {repotest.AR(binary, repotest.Member{Name: "control.tar", Data: repotest.RawTar(t)}, data), ErrFormat},
		"control without name":  {repotest.AR(binary, repotest.Member{Name: "control.tar", Data: repotest.RawTar(t, repotest.File{Name: "control", Body: "Version: 1\n"})}, data), ErrFormat},
		"control is a link":     {repotest.AR(binary, repotest.Member{Name: "control.tar", Data: repotest.RawTar(t, repotest.File{Name: "control", Link: "/etc/passwd", Type: tar.TypeSymlink})}, data), ErrUnsafePath},
		"control in a folder":   {repotest.AR(binary, repotest.Member{Name: "control.tar", Data: repotest.RawTar(t, repotest.File{Name: "a/control"})}, data), ErrUnsafePath},
		"control escapes":       {repotest.AR(binary, repotest.Member{Name: "control.tar", Data: repotest.RawTar(t, repotest.File{Name: "../control"})}, data), ErrUnsafePath},
		"absolute name":         {debOf(t, repotest.File{Name: "/etc/passwd"}), ErrUnsafePath},
		"escape":                {debOf(t, repotest.File{Name: "../x"}), ErrUnsafePath},
		"hidden escape":         {debOf(t, repotest.File{Name: "./usr/../../x"}), ErrUnsafePath},
		"escape and back":       {debOf(t, repotest.File{Name: "usr/../usr/x"}), ErrUnsafePath},
		"folder escapes":        {debOf(t, repotest.File{Name: "../", Type: tar.TypeDir}), ErrUnsafePath},
		"hard link out":         {debOf(t, repotest.File{Name: "x", Link: "../../etc/shadow", Type: tar.TypeLink}), ErrUnsafePath},
		"absolute hard link":    {debOf(t, repotest.File{Name: "x", Link: "/etc/shadow", Type: tar.TypeLink}), ErrUnsafePath},
		"hard link to root":     {debOf(t, repotest.File{Name: "x", Link: "./", Type: tar.TypeLink}), ErrUnsafePath},
		"empty symlink":         {debOf(t, repotest.File{Name: "x", Type: tar.TypeSymlink}), ErrUnsafePath},
		"root as a file":        {debOf(t, repotest.File{Name: "./."}), ErrUnsafePath},
		"character device":      {debOf(t, repotest.File{Name: "null", Type: tar.TypeChar}), ErrUnsafePath},
		"block device":          {debOf(t, repotest.File{Name: "sda", Type: tar.TypeBlock}), ErrUnsafePath},
		"pipe":                  {debOf(t, repotest.File{Name: "pipe", Type: tar.TypeFifo}), ErrUnsafePath},
	}
	for name, test := range tests {
		_, _, err := list(bytes.NewReader(test.in))
		assert.ErrorIsf(t, err, test.want, "%s", name)
	}
	for _, ending := range []string{"", ".gz", ".xz", ".zst"} { // a truncated stream in a whole archive
		short := repotest.Compress(t, ending, repotest.RawTar(t, append(goodData, repotest.File{Name: "big", Body: strings.Repeat("x", 600_000)})...))
		for _, n := range []int{1, 4, 9, 20} {
			if _, _, err := list(bytes.NewReader(repotest.AR(binary, ctl, repotest.Member{Name: "data.tar" + ending, Data: short[:len(short)-n]}))); !errors.Is(err, ErrFormat) && ending != "" {
				t.Errorf("data.tar%s short of %d bytes: %v; want ErrFormat", ending, n, err)
			}
		}
	}
	for n := 0; n < len(good); n += 53 {
		if _, _, err := list(bytes.NewReader(good[:n])); !errors.Is(err, ErrFormat) {
			t.Errorf("cut to %d of %d bytes: %v; want ErrFormat", n, len(good), err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	d := require.Value(OpenDeb(bytes.NewReader(debOf(t))))(t)
	require.NoError(t, d.Check("hello", "1.0-1", "amd64"))
	for _, other := range [][3]string{{"hell", "1.0-1", "amd64"}, {"hello", "1.0-2", "amd64"}, {"hello", "1.0-1", "arm64"}, {"hello", "1.0-1", "all"}} {
		assert.ErrorIsf(t, d.Check(other[0], other[1], other[2]), ErrFormat, "the index says %q", other)
	}
}

// TestDebBuiltByDpkg reads packages that dpkg-deb writes, in each compression.
func TestDebBuiltByDpkg(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb on this machine")
	}
	tree := testfile.Tree(t, t.TempDir(), map[string]string{
		"DEBIAN/control":       "Package: hello\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: x\n",
		"usr/share/hello/text": strings.Repeat("hello\n", 1000), "etc/hello": "conf", "DEBIAN/conffiles": "/etc/hello\n",
	})
	require.NoError(t, errors.Join(os.Chmod(filepath.Join(tree, "DEBIAN"), 0o755), os.Link(filepath.Join(tree, "etc/hello"), filepath.Join(tree, "etc/hi"))))
	for _, z := range []string{"none", "gzip", "xz", "zstd"} {
		file := filepath.Join(t.TempDir(), "x.deb")
		cmd := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-Z"+z, "--build", tree, file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("dpkg-deb -Z%s: %v %s", z, err, out) // old versions have no zstd
			continue
		}
		in := require.Value(os.Open(file))(t)
		deb, got, err := list(in)
		if err != nil || len(got) != 7 || string(deb.Files["conffiles"]) != "/etc/hello\n" {
			t.Errorf("-Z%s: %q, %v", z, got, err)
		}
		assert.NoError(t, in.Close())
	}
}

func FuzzDeb(f *testing.F) {
	for _, ending := range []string{"", ".gz", ".xz", ".zst"} {
		f.Add(repotest.AR(repotest.Member{Name: "debian-binary", Data: []byte("2.0\n")}, repotest.Member{Name: "control.tar" + ending, Data: repotest.Compress(f, ending, control(f))},
			repotest.Member{Name: "data.tar" + ending, Data: repotest.Compress(f, ending, repotest.RawTar(f, goodData...))}))
	}
	f.Add(debOf(f, repotest.File{Name: "../x"}))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := OpenDeb(bytes.NewReader(in))
		if err != nil {
			return
		}
		_ = d.Data(func(h *tar.Header, r io.Reader) error { // any error is right, an unsafe name is not
			if !filepath.IsLocal(h.Name) || h.Typeflag == tar.TypeLink && !filepath.IsLocal(h.Linkname) {
				t.Errorf("passed on %q -> %q", h.Name, h.Linkname)
			}
			_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			return err
		})
	})
}

// FuzzDecompress feeds the decoders themselves, without the archive's checksum in front of them.
func FuzzDecompress(f *testing.F) {
	for i, ending := range []string{".gz", ".xz", ".zst"} {
		f.Add(uint8(i), repotest.Compress(f, ending, []byte(strings.Repeat("some text ", 100))))
	}
	f.Fuzz(func(_ *testing.T, kind uint8, in []byte) {
		r, err := unpack(bytes.NewReader(in), []string{".gz", ".xz", ".zst"}[kind%3], 4<<20, nil)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r)
		_ = r.Close()
	})
}
