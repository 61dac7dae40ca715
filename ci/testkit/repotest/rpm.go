package repotest

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/md5" //nolint:gosec // rpm's signature header has one
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/cavaliergopher/cpio"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// FileTime is the modification time of all files of packages.
const FileTime = 1700000000

// magic begins both headers of a package.
const magic = "\x8e\xad\xe8\x01\x00\x00\x00\x00"

// RPM is a .rpm package. Relations are written as in rpm: "glibc >= 2.34". A name of Files that
// ends in a slash is a folder.
type RPM struct {
	// EVR: [epoch:]version-release, "" for 1-1; Arch "": x86_64
	Name, EVR, Arch                          string
	Provides, Requires, Conflicts, Obsoletes []string
	Files                                    []File
	Compressor                               string // "": gzip; "none"

	Unsigned bool
	Signer   *openpgp.Entity // nil: the repository's key
	// Sign replaces the signature with entries of the signature header.
	Sign func(header, payload []byte) []Entry

	Entries []Entry  // of the header; each replaces the usual one
	Drop    []uint32 // tags of entries that the header lacks
	// changes the archive before it is compressed; the header stays as it is
	Archive func([]byte) []byte
	Damage  func([]byte) []byte // changes the finished package

	// Listing is what the list of packages says instead of the truth; AllFiles are in the list of
	// files too.
	Listing  Listing
	AllFiles []string
}

func (p RPM) arch() string { return cmp.Or(p.Arch, "x86_64") }

// evr is a version; the epoch is "" if there is none.
type evr struct{ Epoch, Version, Release string }

func parseEVR(text string) (v evr) {
	before, after, found := strings.Cut(text, ":")
	if found {
		v.Epoch = before
		text = after
	}
	v.Version, v.Release, _ = strings.Cut(text, "-")
	return v
}

func (p RPM) evr() evr { return parseEVR(cmp.Or(p.EVR, "1-1")) }

// relation is "name op version"; a rich relation is its whole text as a name.
type relation struct{ Name, Op, Version string }

// Flags is the operator as lists of packages have it.
func (r relation) Flags() string {
	return map[string]string{"<": "LT", "<=": "LE", "=": "EQ", ">=": "GE", ">": "GT"}[r.Op]
}

// EVR is the version.
func (r relation) EVR() evr { return parseEVR(r.Version) }

func relationsOf(list []string) (all []relation) {
	for _, text := range list {
		words := strings.Fields(text)
		if len(words) != 3 || strings.HasPrefix(text, "(") {
			words = []string{text, "", ""}
		}
		all = append(all, relation{words[0], words[1], words[2]})
	}
	return all
}

// provided returns what a package provides, its own name and version among it.
func (p RPM) provided() []string {
	return append(slices.Clone(p.Provides), p.Name+" = "+cmp.Or(p.EVR, "1-1"))
}

// Bytes returns the package: lead, signature header, header, archive.
func (p RPM) Bytes(t testing.TB) []byte {
	t.Helper()
	archive := p.CPIO(t)
	if p.Archive != nil {
		archive = p.Archive(archive)
	}
	ending := map[string]string{"": ".gz", "gzip": ".gz", "xz": ".xz", "zstd": ".zst"}[p.Compressor]
	payload := Compress(t, ending, archive)
	header := append([]byte(magic), Region(t, Immutable, p.entries(payload)...)...)
	sum := md5.Sum(append(slices.Clone(header), payload...)) //nolint:gosec // see the import
	entries := []Entry{
		{Tag: 273, Value: fmt.Sprintf("%x", sha256.Sum256(header))},
		{Tag: 1000, Value: []uint32{uint32(len(header) + len(payload))}},
		{Tag: 1004, Value: sum[:]},
	}
	switch {
	case p.Sign != nil:
		entries = append(entries, p.Sign(header, payload)...)
	case !p.Unsigned:
		yesterday := time.Now().AddDate(0, 0, -1)
		signature := SignAt(t, p.Signer, header, yesterday)
		entries = append(entries, Entry{Tag: 268, Value: signature})
	}
	out := make([]byte, 96)
	copy(out, "\xed\xab\xee\xdb\x03\x00\x00\x00\x00\x01"+p.Name)
	out[77] = 1
	out[79] = 5 // Linux; signatures in a header
	out = append(append(out, magic...), Region(t, Signatures, entries...)...)
	out = append(out, make([]byte, -len(out)&7)...)
	out = slices.Concat(out, header, payload)
	if p.Damage != nil {
		out = p.Damage(out)
	}
	return out
}

// SignAt signs, even if the key is not valid at that time.
func SignAt(t testing.TB, e *openpgp.Entity, data []byte, when time.Time) []byte {
	t.Helper()
	key := e.PrimaryKey
	s := &packet.Signature{
		Version:      4,
		SigType:      packet.SigTypeBinary,
		PubKeyAlgo:   key.PubKeyAlgo,
		Hash:         crypto.SHA256,
		CreationTime: when,
		IssuerKeyId:  &key.KeyId,
	}
	h := crypto.SHA256.New()
	h.Write(data)
	var b bytes.Buffer
	require.NoError(t, s.Sign(h, e.PrivateKey, nil))
	require.NoError(t, s.Serialize(&b))
	return b.Bytes()
}

func modeOf(f File) uint16 {
	switch {
	case f.Link != "":
		return 0o120777
	case strings.HasSuffix(f.Name, "/"):
		return 0o040755
	case f.Mode != 0:
		return 0o100000 | uint16(f.Mode)
	}
	return 0o100644
}

func pathOf(f File) string { return "/" + strings.TrimSuffix(f.Name, "/") }

// CPIO returns the archive of the files. Of hard links, the last one has the content.
func (p RPM) CPIO(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for n, f := range p.Files {
		if f.Ghost {
			continue
		}
		body := f.Body + f.Link
		if f.Inode != 0 &&
			slices.ContainsFunc(p.Files[n+1:], func(o File) bool { return o.Inode == f.Inode }) {
			body = ""
		}
		require.NoError(
			t,
			w.WriteHeader(
				&cpio.Header{
					Name:  "." + pathOf(f),
					Mode:  cpio.FileMode(modeOf(f)),
					Size:  int64(len(body)),
					Links: 1,
				},
			),
		)
		require.Value(io.WriteString(w, body))(t)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// sense are the bits of operators.
var sense = map[string]uint32{"<": 2, "<=": 10, "=": 8, ">=": 12, ">": 4}

// entries returns the header's entries; the numbers are those of rpm's rpmtag.h.
func (p RPM) entries(payload []byte) (all []Entry) {
	v := p.evr()
	values := map[uint32]any{
		1000: p.Name, 1001: v.Version, 1002: v.Release, 1022: p.arch(),
		1006: []uint32{FileTime}, 1014: "MIT", 1021: "linux",
		1044: p.Name + "-" + v.Version + "-" + v.Release + ".src.rpm",
		1124: "cpio", 1125: cmp.Or(p.Compressor, "gzip"),
		5092: []string{fmt.Sprintf("%x", sha256.Sum256(payload))}, 5093: []uint32{8}, 5011: []uint32{8},
	}
	if v.Epoch != "" {
		values[1003] = []uint32{uint32(v.Epoch[0] - '0')}
	}
	if p.Compressor == "none" {
		delete(values, 1125)
	}
	for tags, list := range map[[3]uint32][]string{{1047, 1112, 1113}: p.provided(), {1049, 1048, 1050}: p.Requires, {1054, 1053, 1055}: p.Conflicts, {1090, 1114, 1115}: p.Obsoletes} {
		var names, versions []string
		var flags []uint32
		for _, r := range relationsOf(list) {
			names = append(names, r.Name)
			flags = append(flags, sense[r.Op])
			versions = append(versions, r.Version)
		}
		if len(names) > 0 {
			values[tags[0]] = names
			values[tags[1]] = flags
			values[tags[2]] = versions
		}
	}
	p.files(values)
	for _, e := range p.Entries {
		values[e.Tag] = nil
		all = append(all, e)
	}
	for tag, v := range values {
		if v != nil && !slices.Contains(p.Drop, tag) {
			all = append(all, Entry{Tag: tag, Value: v})
		}
	}
	return all
}

// files adds the arrays with the attributes of each file.
func (p RPM) files(values map[uint32]any) {
	var dirs []string
	texts := map[uint32][]string{}
	numbers := map[uint32][]uint32{}
	modes := []uint16{}
	size := 0
	for i, f := range p.Files {
		dir, base := path.Split(pathOf(f))
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		digest := ""
		owner := cmp.Or(f.Owner, "root")
		ghost := 0
		if modeOf(f)>>12 == 0o10 && !f.Ghost {
			digest = fmt.Sprintf("%x", sha256.Sum256([]byte(f.Body)))
		}
		if f.Ghost {
			ghost = 1 << 6
		}
		for tag, s := range map[uint32]string{1117: base, 1035: digest, 1036: f.Link, 1039: owner, 1040: owner, 5010: f.Caps} {
			texts[tag] = append(texts[tag], s)
		}
		inode := cmp.Or(int(f.Inode), i+1)
		for tag, n := range map[uint32]int{1116: slices.Index(dirs, dir), 1028: len(f.Body + f.Link), 1037: ghost, 1034: FileTime, 1095: 1, 1096: inode} {
			numbers[tag] = append(numbers[tag], uint32(n))
		}
		modes = append(modes, modeOf(f))
		size += len(f.Body)
	}
	values[1009] = []uint32{uint32(size)}
	if len(p.Files) == 0 {
		return
	}
	values[1118] = dirs
	values[1030] = modes
	for tag, v := range texts {
		values[tag] = v
	}
	for tag, v := range numbers {
		values[tag] = v
	}
}
