package rpmfile

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/cavaliergopher/cpio"

	"github.com/driver-container/driver-container/distros/repotest"
)

// region encodes entries as rpmbuild does: all of them in an immutable region.
func region(t testing.TB, tag Tag, entries ...Entry) *Header {
	t.Helper()
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Tag, b.Tag) })
	var index, store []byte
	for _, e := range entries {
		x, err := e.encode()
		must(t, err)
		for len(store)%alignment(x.kind) != 0 {
			store = append(store, 0)
		}
		index = words(index, uint32(x.tag), uint32(x.kind), uint32(len(store)), uint32(x.count))
		store = append(store, x.data...)
	}
	n := uint32(len(entries) + 1)
	blob := words(nil, n, uint32(len(store)+16), uint32(tag), 7, uint32(len(store)), 16)
	blob = append(append(blob, index...), store...)
	h, err := ParseHeader(words(blob, uint32(tag), 7, -n*16, 16))
	must(t, err)
	return h
}

func words(to []byte, all ...uint32) []byte {
	for _, w := range all {
		to = binary.BigEndian.AppendUint32(to, w)
	}
	return to
}

// item is a file of the package that a recipe makes.
type item struct {
	path  string
	mode  uint16 // with the bits of its kind; 0: a plain file
	body  string // or the target of a link
	inode uint32
	user  string
	caps  string
	ghost bool

	digest  string // in the header, instead of the right one
	target  string // in the header
	size    uint32 // in the header
	archive string // name in the archive, instead of "./path"
	absent  bool   // not in the archive
}

func (i item) kind() uint16 { return i.mode & modeKind }

// recipe describes a package that build makes.
type recipe struct {
	items      []item
	compressor string
	extra      []Entry // entries of the header; each replaces the usual one
	drop       []Tag   // entries that the header lacks
	sign       func(t testing.TB, header, payload []byte) []Entry
	archive    func(t testing.TB) []byte       // replaces the usual archive
	payload    func(b []byte) []byte           // changes the compressed payload after its digest was computed
	mangle     func(signature, header *Header) // changes the headers before they are written
	tail       string
}

func (r recipe) cpio(t testing.TB) []byte {
	t.Helper()
	if r.archive != nil {
		return r.archive(t)
	}
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for n, i := range r.items {
		if i.ghost || i.absent {
			continue
		}
		body := i.body
		if i.inode != 0 && slices.ContainsFunc(r.items[n+1:], func(o item) bool { return o.inode == i.inode }) || i.kind() == modeFolder {
			body = ""
		}
		name := cmp.Or(i.archive, "./"+strings.TrimPrefix(i.path, "/"))
		h := &cpio.Header{Name: name, Mode: cpio.FileMode(i.mode), Size: int64(len(body)), Links: 1}
		must(t, w.WriteHeader(h))
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func (r recipe) header(t testing.TB, payload []byte) *Header {
	t.Helper()
	entries := map[Tag]Entry{}
	set := func(tag Tag, kind Type, v any) { entries[tag] = Entry{tag, kind, v} }
	set(TagI18NTable, TypeStringArray, []string{"C"})
	set(TagName, TypeString, "hello")
	set(TagVersion, TypeString, "1.0")
	set(TagRelease, TypeString, "2.el9")
	set(TagArch, TypeString, "x86_64")
	set(TagPayloadFormat, TypeString, "cpio")
	if r.compressor != "" {
		set(TagPayloadCompressor, TypeString, r.compressor)
	}
	set(TagPayloadDigest, TypeStringArray, []string{fmt.Sprintf("%x", sha256.Sum256(payload))})
	set(TagPayloadDigestAlgo, TypeInt32, []uint32{8})
	set(TagFileDigestAlgo, TypeInt32, []uint32{8})
	var bases, dirs, digests, targets, users, groups, caps []string
	var index, sizes, flags, times, devices, inodes []uint32
	var modes []uint16
	for n, i := range r.items {
		dir, base := path.Split(i.path)
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		bases, index = append(bases, base), append(index, uint32(slices.Index(dirs, dir)))
		digest, target := "", ""
		switch i.kind() {
		case modeRegular:
			digest = fmt.Sprintf("%x", sha256.Sum256([]byte(i.body)))
		case modeLink:
			target = i.body
		}
		flag := uint32(0)
		if i.ghost {
			flag, digest = flagGhost, ""
		}
		digests, targets = append(digests, cmp.Or(i.digest, digest)), append(targets, cmp.Or(i.target, target))
		sizes, modes, flags = append(sizes, cmp.Or(i.size, uint32(len(i.body)))), append(modes, i.mode), append(flags, flag)
		users, groups, caps = append(users, cmp.Or(i.user, "root")), append(groups, cmp.Or(i.user, "root")), append(caps, i.caps)
		times, devices, inodes = append(times, 1e9), append(devices, 1), append(inodes, cmp.Or(i.inode, uint32(n+1000)))
	}
	if len(bases) > 0 {
		for tag, v := range map[Tag][]string{TagBaseNames: bases, TagDirNames: dirs, TagFileDigests: digests, TagFileLinkTos: targets, TagFileUserName: users, TagFileGroupName: groups, TagFileCaps: caps} {
			set(tag, TypeStringArray, v)
		}
		for tag, v := range map[Tag][]uint32{TagDirIndexes: index, TagFileSizes: sizes, TagFileFlags: flags, TagFileMTimes: times, TagFileDevices: devices, TagFileInodes: inodes} {
			set(tag, TypeInt32, v)
		}
		set(TagFileModes, TypeInt16, modes)
	}
	for _, e := range r.extra {
		entries[e.Tag] = e
	}
	for _, tag := range r.drop {
		delete(entries, tag)
	}
	var all []Entry
	for _, e := range entries {
		all = append(all, e)
	}
	return region(t, TagHeaderImmutable, all...)
}

// build makes the package.
func (r recipe) build(t testing.TB) []byte {
	t.Helper()
	r.items = slices.Clone(r.items) // recipes share the items, and tests run in parallel
	for i := range r.items {
		if r.items[i].mode == 0 {
			r.items[i].mode = modeRegular | 0o644
		}
	}
	payload := repotest.Compress(t, map[string]string{"gzip": ".gz", "xz": ".xz", "zstd": ".zst", "lzma": ".lzma"}[r.compressor], r.cpio(t))
	h := r.header(t, payload)
	signed := append([]byte(headerMagic), h.Bytes()...)
	if r.payload != nil {
		payload = r.payload(payload)
	}
	sum := md5.Sum(append(slices.Clone(signed), payload...))
	entries := []Entry{
		{TagSHA256Header, TypeString, fmt.Sprintf("%x", sha256.Sum256(signed))},
		{SigTagSize, TypeInt32, []uint32{uint32(len(signed) + len(payload))}},
		{SigTagMD5, TypeBinary, sum[:]},
	}
	if r.sign != nil {
		entries = append(entries, r.sign(t, signed, payload)...)
	}
	signature := region(t, TagHeaderSignatures, entries...)
	if r.mangle != nil {
		r.mangle(signature, h)
	}
	out := make([]byte, leadSize)
	copy(out, leadMagic+"\x03\x00\x00\x00\x00\x01hello-1.0-2.el9")
	out[77], out[79] = 1, 5
	out = append(append(out, headerMagic...), signature.Bytes()...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	return append(append(append(append(out, headerMagic...), h.Bytes()...), payload...), r.tail...)
}

// signer generates a key and a keyring with it.
func signer(t testing.TB, c packet.Config) (*openpgp.Entity, Keyring) {
	t.Helper()
	if c.Algorithm == 0 {
		c.Algorithm = packet.PubKeyAlgoEdDSA // fast to generate
	}
	e, err := openpgp.NewEntity("Test", "", "test@example.org", &c)
	must(t, err)
	return e, ring(t, e)
}

func ring(t testing.TB, all ...*openpgp.Entity) Keyring {
	t.Helper()
	var b bytes.Buffer
	for _, e := range all {
		must(t, e.Serialize(&b))
	}
	k, err := ReadKeyring(b.Bytes())
	must(t, err)
	return k
}

// sign returns a detached signature.
func sign(t testing.TB, e *openpgp.Entity, data []byte, c packet.Config) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, openpgp.DetachSign(&b, e, bytes.NewReader(data), &c))
	return b.Bytes()
}

// headerSigned returns a function that signs the header, with the tag that rpmsign would use.
func headerSigned(e *openpgp.Entity, c packet.Config) func(testing.TB, []byte, []byte) []Entry {
	return func(t testing.TB, header, _ []byte) []Entry {
		return []Entry{{TagRSAHeader, TypeBinary, sign(t, e, header, c)}}
	}
}

func openPGPTag(data []byte) Entry {
	return Entry{TagOpenPGP, TypeStringArray, []string{base64.StdEncoding.EncodeToString(data)}}
}

func at(when time.Time) func() time.Time { return func() time.Time { return when } }

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
