package rpmfile

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cavaliergopher/cpio"
	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/pgp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list reads a whole package and describes each file.
func list(r io.Reader) (*File, []string, error) {
	f, err := Open(r)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	err = f.Payload(func(h *tar.Header, r io.Reader) error {
		body, err := io.ReadAll(r)
		line := fmt.Sprintf("%c %o %s %s%s", h.Typeflag, h.Mode, h.Name, h.Linkname, body)
		if h.Uname != "root" {
			line += " of " + h.Uname
		}
		if v, ok := h.PAXRecords[capabilityRecord]; ok {
			line += " with " + hex.EncodeToString([]byte(v))
		}
		out = append(out, line)
		return err
	})
	return f, out, err
}

func goodItems() []repotest.File {
	return []repotest.File{
		{Name: "/"},
		{Name: "etc/ghost", Ghost: true, Body: "x"},
		{Name: "usr/"},
		{Name: "usr/bin/a b", Body: "one\n", Mode: 0o755},
		{Name: "usr/bin/empty"},
		{Name: "usr/bin/hard1", Body: "same", Inode: 105},
		{Name: "usr/bin/hard2", Body: "same", Inode: 105},
		{Name: "usr/bin/hard3", Body: "same", Inode: 105},
		{Name: "usr/bin/link", Link: "../../etc/x"},
		{Name: "usr/bin/none1", Inode: 106},
		{Name: "usr/bin/none2", Inode: 106},
		{Name: "usr/bin/ping", Body: "p", Mode: 0o755, Caps: "cap_net_raw=ep"},
		{Name: "usr/bin/su", Body: "s", Mode: 0o4755},
		{Name: "usr/bin/tty", Body: "t", Mode: 0o6755, Owner: "tty"},
	}
}

var goodList = []string{
	"5 755 usr ",
	"0 755 usr/bin/a b one\n",
	"0 644 usr/bin/empty ",
	"0 644 usr/bin/hard3 same", "1 644 usr/bin/hard1 usr/bin/hard3", "1 644 usr/bin/hard2 usr/bin/hard3",
	"2 777 usr/bin/link ../../etc/x",
	"0 644 usr/bin/none2 ", "1 644 usr/bin/none1 usr/bin/none2",
	"0 755 usr/bin/ping p with 0100000200200000000000000000000000000000",
	"0 4755 usr/bin/su s",
	"0 755 usr/bin/tty t of tty",
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"", "gzip", "xz", "zstd"} {
		data := recipe{items: goodItems(), compressor: how}.build(t)
		for name, r := range map[string]io.Reader{"plain": bytes.NewReader(data), "byte by byte": iotest.OneByteReader(bytes.NewReader(data))} {
			f, got, err := list(r)
			require.NoErrorf(t, err, "%q %s", how, name)
			assert.Samef(t, goodList, got, "%q %s", how, name)
			assert.Errorf(t, f.Payload(nil), "%q: Payload a second time succeeded", how)
			m, err := f.Header.Metadata()
			if err != nil || m.Name != "hello" || m.EVR.String() != "1.0-2.el9" || len(m.Files) != len(goodItems()) {
				t.Errorf("metadata %v, %v", m, err)
			}
		}
	}
}

// stripped returns a function that makes an archive in rpm's own format, whose members have only their
// number.
func stripped(items []repotest.File) func(testing.TB) []byte {
	return func(testing.TB) []byte {
		var b bytes.Buffer
		pad := func() { b.Write(make([]byte, -b.Len()&3)) }
		for n, i := range items {
			if i.Ghost {
				continue
			}
			fmt.Fprintf(&b, "07070X%08x", n)
			pad()
			if i.Inode == 0 || !slices.ContainsFunc(items[n+1:], func(o repotest.File) bool { return o.Inode == i.Inode }) {
				b.WriteString(i.Body + i.Link)
			}
			pad()
		}
		fmt.Fprintf(&b, "070701%s", strings.Repeat("0", 88)+"0000000b00000000TRAILER!!!\x00")
		pad()
		return b.Bytes()
	}
}

func TestPayloadStripped(t *testing.T) {
	t.Parallel()
	items := goodItems()
	sizes := make([]uint64, len(items))
	for i := range items {
		sizes[i] = uint64(len(items[i].Body + items[i].Link))
	}
	r := recipe{items: items, archive: stripped(items), drop: []Tag{TagFileSizes}, extra: []Entry{{TagLongFileSizes, TypeInt64, sizes}}}
	_, got, err := list(bytes.NewReader(r.build(t)))
	if diff := gocmp.Diff(goodList, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestPayloadStopsWithCaller(t *testing.T) {
	t.Parallel()
	data := recipe{items: goodItems(), compressor: "zstd"}.build(t)
	f := require.Value(Open(bytes.NewReader(data)))(t)
	stop := errors.New("enough")
	if err := f.Payload(func(*tar.Header, io.Reader) error { return stop }); !errors.Is(err, stop) || errors.Is(err, ErrFormat) {
		t.Errorf("Payload = %v; want the callback's error", err)
	}
	f = require.Value(Open(bytes.NewReader(data)))(t)
	n := 0
	// the second call reads nothing
	if err := f.Payload(func(*tar.Header, io.Reader) error { n++; return nil }); err != nil || n != len(goodList) {
		t.Errorf("%d files, %v", n, err)
	}
}

// TestReaderFails cuts a package at each position, once by its end and once by an error of the reader, which
// must be returned.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for _, how := range []string{"", "gzip", "xz", "zstd"} {
		data := recipe{items: goodItems(), compressor: how}.build(t)
		for n := 0; n < len(data); n += 1 + len(data)/40 {
			if _, _, err := list(bytes.NewReader(data[:n])); !errors.Is(err, ErrFormat) {
				t.Errorf("%q cut at %d of %d: %v, want ErrFormat", how, n, len(data), err)
			}
			if _, _, err := list(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(lost))); !errors.Is(err, lost) {
				t.Errorf("%q lost at %d of %d: %v, want the reader's error", how, n, len(data), err)
			}
		}
	}
}

// archiveOf returns a function that makes a cpio archive which does not match the header.
func archiveOf(entries ...*cpio.Header) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		var b bytes.Buffer
		w := cpio.NewWriter(&b)
		for _, h := range entries {
			body := strings.Repeat("x", int(h.Size))
			require.NoError(t, w.WriteHeader(h))
			require.Value(io.WriteString(w, body))(t)
		}
		require.NoError(t, w.Close())
		return b.Bytes()
	}
}

func TestPackageHostile(t *testing.T) {
	t.Parallel()
	single := []repotest.File{{Name: "usr/a", Body: "x"}}
	with := func(f repotest.File, extra ...Entry) recipe {
		return recipe{items: []repotest.File{f}, compressor: "gzip", extra: extra}
	}
	mode := func(m uint16) Entry { return Entry{TagFileModes, TypeInt16, []uint16{m}} }
	named := func(path, archive string) recipe {
		return recipe{items: []repotest.File{{Name: path, Body: "x"}}, archive: archiveOf(&cpio.Header{Name: archive, Size: 1})}
	}
	replaced := func(old, by string) recipe {
		return recipe{items: single, archive: func(t testing.TB) []byte {
			return bytes.Replace(repotest.RPM{Files: single}.CPIO(t), []byte(old), []byte(by), 1)
		}}
	}
	behind := func(what string) func([]byte) []byte {
		return func(b []byte) []byte { return append(b, what...) }
	}
	text := func(tag Tag, s string) Entry { return Entry{tag, TypeString, s} }
	tests := map[string]struct {
		r    recipe
		want error
		word string
	}{
		"escape in the header":      {named("usr/../../etc/x", "./x"), ErrUnsafePath, "leads out"},
		"escape in the archive":     {named("usr/a", "./usr/../../a"), ErrUnsafePath, "leads out"},
		"other name in the archive": {named("usr/a", "./usr/b"), ErrFormat, "the header has not"},
		"device":                    {with(repotest.File{Name: "dev/x"}, mode(0o020644)), ErrUnsafePath, "mode"},
		"fifo":                      {with(repotest.File{Name: "dev/x"}, mode(0o010644)), ErrUnsafePath, "mode"},
		"no kind":                   {with(repotest.File{Name: "x"}, mode(0o644)), ErrUnsafePath, "mode"},
		"file without name":         {with(repotest.File{Name: "", Body: "x"}), ErrUnsafePath, "name"},
		"link without target":       {with(repotest.File{Name: "x"}, mode(modeLink)), ErrUnsafePath, "target"},
		"folder with content":       {recipe{items: []repotest.File{{Name: "a/"}}, archive: archiveOf(&cpio.Header{Name: "./a", Mode: 0o100644, Size: 4})}, ErrFormat, "folder"},
		"other link":                {with(repotest.File{Name: "x", Link: "aaa"}, Entry{TagFileLinkTos, TypeStringArray, []string{"bbb"}}), ErrDigest, "links to"},
		"longer link":               {with(repotest.File{Name: "x", Link: "aaa"}, Entry{TagFileLinkTos, TypeStringArray, []string{"aa"}}), ErrDigest, "target"},
		"other digest":              {with(repotest.File{Name: "x", Body: "aaa"}, Entry{TagFileDigests, TypeStringArray, []string{strings.Repeat("0", 64)}}), ErrDigest, "digest"},
		"other size":                {with(repotest.File{Name: "x", Body: "aaa"}, Entry{TagFileSizes, TypeInt32, []uint32{2}}), ErrDigest, "3 bytes"},
		"missing":                   {recipe{items: single, archive: archiveOf()}, ErrFormat, "not in the archive"},
		"twice in the archive":      {recipe{items: single, archive: archiveOf(&cpio.Header{Name: "./usr/a", Size: 1}, &cpio.Header{Name: "./usr/a", Size: 1})}, ErrFormat, "twice"},
		"twice in the header":       {recipe{items: []repotest.File{{Name: "a", Body: "x"}, {Name: "/a", Body: "x"}}}, ErrFormat, "twice"},
		"ghost in the archive":      {recipe{items: []repotest.File{{Name: "a", Body: "x", Ghost: true}}, archive: archiveOf(&cpio.Header{Name: "./a", Size: 1})}, ErrFormat, "not there"},
		"hard links that differ":    {recipe{items: []repotest.File{{Name: "a", Body: "x", Inode: 3}, {Name: "b", Body: "y", Inode: 3}}}, ErrDigest, "differ"},
		"hard links without file":   {recipe{items: []repotest.File{{Name: "a", Body: "x", Inode: 3}, {Name: "b", Body: "x", Inode: 3}}, archive: archiveOf(&cpio.Header{Name: "./a"}, &cpio.Header{Name: "./b"})}, ErrFormat, "missing"},
		"hard links with two files": {recipe{items: []repotest.File{{Name: "a", Body: "x", Inode: 3}, {Name: "b", Body: "x", Inode: 3}}, archive: archiveOf(&cpio.Header{Name: "./a", Size: 1}, &cpio.Header{Name: "./b", Size: 1})}, ErrDigest, "once"},
		"bomb":                      {recipe{items: single, compressor: "gzip", archive: func(testing.TB) []byte { return append([]byte("070701"), make([]byte, 8<<20)...) }}, ErrFormat, "hexadecimal"},
		"bomb behind the archive": {recipe{items: single, compressor: "zstd", archive: func(t testing.TB) []byte {
			return append(archiveOf(&cpio.Header{Name: "./usr/a", Size: 1})(t), make([]byte, 8<<20)...)
		}}, ErrFormat, "more than"},
		"data behind the archive": {recipe{items: single, archive: func(t testing.TB) []byte {
			return append(archiveOf(&cpio.Header{Name: "./usr/a", Size: 1})(t), "evil"...)
		}}, ErrFormat, "behind"},
		"rubbish behind":         {recipe{items: single, compressor: "gzip", damage: behind("rubbish")}, ErrFormat, ""},
		"rubbish behind xz":      {recipe{items: single, compressor: "xz", damage: behind("rubbish")}, ErrFormat, ""},
		"rubbish behind zstd":    {recipe{items: single, compressor: "zstd", damage: behind("rubbish")}, ErrFormat, ""},
		"rubbish behind gzip":    {recipe{items: single, compressor: "gzip", damage: behind("rubbish"), drop: []Tag{TagPayloadDigest}}, ErrFormat, ""},
		"zeros behind":           {recipe{items: single, damage: behind("\x00\x00\x00\x00")}, ErrDigest, ""},
		"another payload":        {recipe{items: single, damage: func(b []byte) []byte { b[bytes.Index(b, []byte("070701"))+50] ^= 1; return b }}, ErrDigest, "its digest is"},
		"magic of cpio":          {replaced("070701", "070707"), ErrFormat, "should begin"},
		"number in cpio":         {replaced("00000001", "0000000g"), ErrFormat, "hexadecimal"},
		"sign in cpio":           {replaced("00000001", "-0000001"), ErrFormat, "hexadecimal"},
		"name that does not end": {replaced("./usr/a\x00", "./usr/ab"), ErrFormat, "does not end"},
		"name that is too long":  {replaced("00000008", "0000ffff"), ErrFormat, "bytes"},
		"number of no file":      {recipe{items: single, archive: func(testing.TB) []byte { return []byte("07070X00000001\x00\x00") }}, ErrFormat, "no file"},
		"number far out":         {recipe{items: single, archive: func(testing.TB) []byte { return []byte("07070Xffffffff\x00\x00") }}, ErrFormat, "file 4294967295"},
		"delta rpm":              {recipe{items: single, extra: []Entry{text(TagPayloadFormat, "drpm")}}, ErrFormat, "drpm"},
		"unknown compression":    {recipe{items: single, extra: []Entry{text(TagPayloadCompressor, "br")}}, ErrFormat, "not supported"},
		"not what it says":       {recipe{items: single, extra: []Entry{text(TagPayloadCompressor, "xz")}}, ErrFormat, ""},
		"capabilities":           {with(repotest.File{Name: "x", Body: "a", Caps: "cap_everything=ep"}), ErrFormat, "cap_everything"},
		"impossible size":        {recipe{items: single, drop: []Tag{TagFileSizes}, extra: []Entry{{TagLongFileSizes, TypeInt64, []uint64{1 << 62}}}}, ErrFormat, "more than"},
		"negative size":          {recipe{items: single, drop: []Tag{TagFileSizes}, extra: []Entry{{TagLongFileSizes, TypeInt64, []uint64{1 << 63}}}}, ErrFormat, "more than"},
		"fewer modes":            {recipe{items: single, extra: []Entry{{TagFileModes, TypeInt16, []uint16{1, 2}}}}, ErrFormat, "tag 1030"},
		"no sizes":               {recipe{items: single, drop: []Tag{TagFileSizes}}, ErrFormat, "tag 1028"},
		"no name":                {recipe{items: single, drop: []Tag{TagName}}, ErrFormat, "no name"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := list(bytes.NewReader(c.r.build(t)))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%v, %q; want %v with %q", err, got, c.want, c.word)
			}
		})
	}
}

func TestOpenHostile(t *testing.T) {
	t.Parallel()
	good := recipe{items: goodItems()}.build(t)
	change := func(at int, to string) []byte {
		b := bytes.Clone(good)
		copy(b[at:], to)
		return b
	}
	header := bytes.LastIndex(good, []byte(headerMagic))
	inside := opened(t, good).Header
	outside := added(t, inside, Entry{TagVendor, TypeString, "not signed"})
	dribble := slices.Concat(good[:header+8], outside.Bytes(), good[header+8+len(inside.Bytes()):])
	tests := map[string]struct {
		in   []byte
		want error
	}{
		"empty":                      {nil, ErrFormat},
		"a deb":                      {append([]byte("!<arch>\n"), make([]byte, 200)...), ErrFormat},
		"format 5":                   {change(4, "\x05"), ErrFormat},
		"kind 2":                     {change(7, "\x02"), ErrFormat},
		"signature of rpm 2":         {change(79, "\x01"), ErrFormat},
		"no signature header":        {change(leadSize, "xxx"), ErrFormat},
		"a billion signatures":       {change(leadSize+8, "\x40\x00\x00\x00"), ErrFormat},
		"gigabytes of signatures":    {change(leadSize+12, "\x40\x00\x00\x00"), ErrFormat},
		"no header":                  {change(header, "xxx"), ErrFormat},
		"a billion entries":          {change(header+8, "\x40\x00\x00\x00"), ErrFormat},
		"gigabytes promised":         {change(header+12, "\x7f\xff\xff\xff"), ErrFormat},
		"megabytes promised":         {change(header+12, "\x03\xff\xff\xff"), ErrFormat},
		"entries outside the region": {dribble, ErrFormat},
		"signature header as header": {change(header+16, "\x00\x00\x00\x3e"), ErrFormat},
	}
	for name, c := range tests {
		assert.ErrorIsf(t, assert.Err(Open(bytes.NewReader(c.in))), c.want, "%s", name)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"=":                                "",
		"cap_net_raw=ep":                   "0100000200200000000000000000000000000000",
		"= cap_net_raw+ep":                 "0100000200200000000000000000000000000000",
		"cap_net_raw+p":                    "0000000200200000000000000000000000000000",
		"cap_net_admin,cap_net_raw=ep":     "0100000200300000000000000000000000000000",
		"CAP_NET_ADMIN=ep cap_net_raw=eip": "0100000200300000002000000000000000000000",
		"cap_bpf=ep":                       "0100000200000000000000008000000000000000",
		"cap_net_raw=i":                    "0000000200000000002000000000000000000000",
		"=ep cap_bpf-ep":                   "01000002ffffffff000000007f01000000000000",
		"cap_41=p":                         "0000000200000000000000000002000000000000",
		"cap_net_raw=p+e":                  "0100000200200000000000000000000000000000",
	} {
		got, err := capabilityXattr(text)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%q: %x, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"cap_net_raw", "cap_net_raw=x", "cap_nothing=ep", "cap_64=p", "cap_net_raw=e", "cap_net_raw=ep cap_bpf=p", "=é"} {
		assert.ErrorIsf(t, assert.Err(capabilityXattr(text)), ErrFormat, "%q", text)
	}
}

func TestInstalledHeader(t *testing.T) {
	t.Parallel()
	f, _, err := list(bytes.NewReader(recipe{items: goodItems()}.build(t)))
	require.NoError(t, err)
	h := require.Value(f.InstalledHeader(time.Unix(1700000000, 5), 3, func(p string) bool { return p == "/usr/bin/a b" }))(t)
	states := make([]uint64, len(goodItems()))
	states[3] = 2 // of "a b", which was left out
	for tag, want := range map[Tag][]uint64{
		TagInstallTime: {1700000000}, TagInstallTID: {1700000000}, TagInstallColor: {3}, TagFileStates: states, TagSigSize: f.Signature.Ints(SigTagSize),
	} {
		assert.Samef(t, want, h.Ints(tag), "tag %d", tag)
	}
	if h.Text(TagSHA256Header) != f.Signature.Text(TagSHA256Header) || !bytes.Equal(h.Binary(TagSigMD5), f.Signature.Binary(SigTagMD5)) || h.Text(TagName) != "hello" {
		t.Error("digests or name are missing")
	}
}

func FuzzOpen(f *testing.F) {
	for _, how := range []string{"", "gzip", "xz", "zstd"} {
		f.Add(recipe{items: goodItems(), compressor: how}.build(f))
	}
	f.Add(recipe{}.build(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Open(bytes.NewReader(data))
		if err == nil {
			err = p.Payload(func(h *tar.Header, _ io.Reader) error {
				if !safe(h.Name) || h.Typeflag == tar.TypeLink && !safe(h.Linkname) {
					return errors.New("unsafe")
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsafePath) && !errors.Is(err, ErrDigest) {
			t.Fatal(err)
		}
		if p != nil {
			_, _ = p.Verify(pgp.Ring{}, nil)
			_, _ = p.InstalledHeader(time.Unix(0, 0), 0, nil)
		}
	})
}

func safe(name string) bool { return name != "." && fs.ValidPath(strings.ToValidUTF8(name, "?")) }
