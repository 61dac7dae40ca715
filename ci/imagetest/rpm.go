package imagetest

import (
	"bytes"
	"crypto"
	"crypto/md5" //nolint:gosec // rpm's signature header has one
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/cavaliergopher/cpio"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// RPMTime is the modification time of all files of packages.
const RPMTime = 1700000000

// RPM is a .rpm package for x86_64, or for the architecture that it names. Relations are written as in rpm:
// "glibc >= 2.34". A name of Files that ends in a slash is a folder.
type RPM struct {
	Name, EVR, Arch                          string // EVR: [epoch:]version-release
	Provides, Requires, Conflicts, Obsoletes []string
	Files                                    []File
	Caps                                     map[string]string // by name of a file: "cap_net_raw=ep"

	Signer   *openpgp.Entity // nil: the system's key
	Unsigned bool
	Signed   time.Time           // zero: a day ago
	Archive  func([]byte) []byte // changes the archive before it is compressed; the header stays as it is
	Damage   func([]byte) []byte // changes the finished package
}

func (p RPM) arch() string {
	if p.Arch == "" {
		return "x86_64"
	}
	return p.Arch
}

func (p RPM) evr(t testing.TB) rpmfile.EVR {
	e, err := rpmfile.ParseEVR(p.EVR)
	if err != nil || e.Release == "" {
		t.Fatalf("imagetest: %s: %q is no [epoch:]version-release: %v", p.Name, p.EVR, err)
	}
	return e
}

// Bytes returns the package: lead, signature header, header, archive.
func (p RPM) Bytes(t testing.TB) []byte {
	t.Helper()
	archive := p.cpio(t)
	if p.Archive != nil {
		archive = p.Archive(archive)
	}
	payload := Gzip(t, archive)
	const magic = "\x8e\xad\xe8\x01\x00\x00\x00\x00"
	header := append([]byte(magic), region(t, rpmfile.TagHeaderImmutable, p.entries(t, payload))...)
	sum := md5.Sum(append(slices.Clone(header), payload...)) //nolint:gosec // see the import
	entries := []rpmfile.Entry{
		{Tag: rpmfile.TagSHA256Header, Type: rpmfile.TypeString, Value: fmt.Sprintf("%x", sha256.Sum256(header))},
		{Tag: rpmfile.SigTagSize, Type: rpmfile.TypeInt32, Value: []uint32{uint32(len(header) + len(payload))}},
		{Tag: rpmfile.SigTagMD5, Type: rpmfile.TypeBinary, Value: sum[:]},
	}
	if !p.Unsigned {
		entries = append(entries, rpmfile.Entry{Tag: rpmfile.TagRSAHeader, Type: rpmfile.TypeBinary, Value: p.sign(t, header)})
	}
	out := make([]byte, 96)
	copy(out, "\xed\xab\xee\xdb\x03\x00\x00\x00\x00\x01"+p.Name)
	out[77], out[79] = 1, 5 // Linux; signatures in a header
	out = append(append(out, magic...), region(t, rpmfile.TagHeaderSignatures, entries)...)
	out = append(out, make([]byte, -len(out)&7)...)
	out = slices.Concat(out, header, payload)
	if p.Damage != nil {
		out = p.Damage(out)
	}
	return out
}

// region makes a header as rpmbuild does: all entries in one region.
func region(t testing.TB, tag rpmfile.Tag, entries []rpmfile.Entry) []byte {
	h, err := (&rpmfile.Header{}).With(entries...)
	if err != nil {
		t.Fatalf("imagetest: %v", err)
	}
	blob := h.Bytes()
	n, size := binary.BigEndian.Uint32(blob), binary.BigEndian.Uint32(blob[4:])
	words := func(to []byte, all ...uint32) []byte {
		for _, w := range all {
			to = binary.BigEndian.AppendUint32(to, w)
		}
		return to
	}
	out := words(nil, n+1, size+16, uint32(tag), uint32(rpmfile.TypeBinary), size, 16)
	return words(append(out, blob[8:]...), uint32(tag), uint32(rpmfile.TypeBinary), -(n+1)*16, 16)
}

func (p RPM) sign(t testing.TB, header []byte) []byte {
	when := p.Signed
	if when.IsZero() {
		when = time.Now().AddDate(0, 0, -1)
	}
	key := p.Signer.PrimaryKey
	s := &packet.Signature{Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: key.PubKeyAlgo, Hash: crypto.SHA256, CreationTime: when, IssuerKeyId: &key.KeyId}
	h := crypto.SHA256.New()
	h.Write(header)
	var b bytes.Buffer
	err := s.Sign(h, p.Signer.PrivateKey, nil)
	if err == nil {
		err = s.Serialize(&b)
	}
	if err != nil {
		t.Fatalf("imagetest: sign %s: %v", p.Name, err)
	}
	return b.Bytes()
}

// mode returns the mode of a file in headers and archives.
func (f File) mode() uint16 {
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

func (f File) rpmPath() string { return "/" + strings.TrimSuffix(f.Name, "/") }

func (p RPM) cpio(t testing.TB) []byte {
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for _, f := range p.Files {
		body := f.Body + f.Link
		err := w.WriteHeader(&cpio.Header{Name: "." + f.rpmPath(), Mode: cpio.FileMode(f.mode()), Size: int64(len(body)), Links: 1})
		if err == nil {
			_, err = io.WriteString(w, body)
		}
		if err != nil {
			t.Fatalf("imagetest: %s: %s: %v", p.Name, f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("imagetest: %v", err)
	}
	return b.Bytes()
}
