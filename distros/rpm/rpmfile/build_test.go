package rpmfile

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/pgp"
)

// Entry is repotest.Entry with the names of this package.
type Entry struct {
	Tag   Tag
	Type  Type
	Value any
}

// region encodes entries as rpmbuild does: all of them in an immutable region.
func region(t testing.TB, tag Tag, entries ...Entry) *Header {
	t.Helper()
	return require.Value(ParseHeader(repotest.Region(t, uint32(tag), plain(entries)...)))(t)
}

const (
	TagSummary  Tag = 1004
	TagLongSize Tag = 5009
)

// tagsOf returns the tags of a header in ascending order, without the region's own entry.
func tagsOf(h *Header) (tags []Tag) {
	for _, e := range h.entries {
		tags = append(tags, e.tag)
	}
	slices.Sort(tags)
	return tags
}

func plain(entries []Entry) (all []repotest.Entry) {
	for _, e := range entries {
		all = append(all, repotest.Entry{Tag: uint32(e.Tag), Type: uint32(e.Type), Value: e.Value})
	}
	return all
}

// recipe describes a package that build makes.
type recipe struct {
	items      []repotest.File
	compressor string
	extra      []Entry // entries of the header; each replaces the usual one
	drop       []Tag   // entries that the header lacks
	sign       func(t testing.TB, header, payload []byte) []Entry
	archive    func(t testing.TB) []byte // replaces the usual archive
	damage     func(b []byte) []byte     // changes the package
}

// build makes the package.
func (r recipe) build(t testing.TB) []byte {
	t.Helper()
	p := repotest.RPM{
		Name: "hello", EVR: "1.0-2.el9", Files: r.items, Compressor: cmp.Or(r.compressor, "none"), Unsigned: r.sign == nil, Entries: plain(r.extra), Damage: r.damage,
	}
	for _, tag := range r.drop {
		p.Drop = append(p.Drop, uint32(tag))
	}
	if r.sign != nil {
		p.Sign = func(header, payload []byte) []repotest.Entry { return plain(r.sign(t, header, payload)) }
	}
	if r.archive != nil {
		p.Archive = func([]byte) []byte { return r.archive(t) }
	}
	return p.Bytes(t)
}

// signer generates a key and a keyring with it.
func signer(t testing.TB, c packet.Config) (*openpgp.Entity, pgp.Ring) {
	t.Helper()
	if c.Algorithm == 0 {
		c.Algorithm = packet.PubKeyAlgoEdDSA // fast to generate
	}
	e := repotest.KeyOf("Test", &c)
	return e, ring(t, e)
}

func ring(t testing.TB, all ...*openpgp.Entity) pgp.Ring {
	t.Helper()
	var b bytes.Buffer
	for _, e := range all {
		require.NoError(t, e.Serialize(&b))
	}
	var r pgp.Ring
	r.Add("test", b.Bytes())
	return r
}

// sign returns a detached signature.
func sign(t testing.TB, e *openpgp.Entity, data []byte, c packet.Config) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, openpgp.DetachSign(&b, e, bytes.NewReader(data), &c))
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
	return require.Value(os.ReadFile(name))(t)
}
