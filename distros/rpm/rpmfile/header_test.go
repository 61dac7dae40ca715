package rpmfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	entries := []Entry{
		{TagName, TypeString, "hello"},
		{TagSummary, TypeI18NString, []string{"a", "b"}},
		{TagBaseNames, TypeStringArray, []string{"x", "", "y"}},
		{TagFileModes, TypeInt16, []uint16{1, 0xffff}},
		{TagFileSizes, TypeInt32, []uint32{1, 0xffffffff}},
		{TagLongSize, TypeInt64, []uint64{1 << 40}},
		{TagFileStates, TypeChar, []byte{1, 2}},
		{TagSigMD5, TypeBinary, []byte{3}},
	}
	empty := require.Value(ParseHeader(repotest.Header(t, plain(entries)...)))(t)
	for name, h := range map[string]*Header{"region": region(t, TagHeaderImmutable, entries...), "no region": empty} {
		got := []any{h.Text(TagName), h.Texts(TagSummary), h.Texts(TagBaseNames), h.Ints(TagFileModes), h.Ints(TagFileSizes), h.Ints(TagLongSize), h.Ints(TagFileStates), h.Binary(TagFileStates), h.Binary(TagSigMD5)}
		want := []any{"hello", []string{"a", "b"}, []string{"x", "", "y"}, []uint64{1, 0xffff}, []uint64{1, 0xffffffff}, []uint64{1 << 40}, []uint64{1, 2}, []byte{1, 2}, []byte{3}}
		assert.Samef(t, want, got, "%s", name)
		// With a method for another type there is no value, never a wrong one.
		if h.Text(TagFileModes) != "" || h.Texts(TagSigMD5) != nil || h.Ints(TagName) != nil || h.Ints(TagSigMD5) != nil || h.Binary(TagName) != nil || h.Has(TagVendor) || h.Text(TagVendor) != "" {
			t.Errorf("%s: values of other types", name)
		}
		want2 := []Tag{261, 1000, 1004, 1028, 1029, 1030, 1117, 5009}
		assert.Samef(t, want2, tagsOf(h), "%s: tags", name)
		assert.Equalf(t, name == "region", h.Immutable(), "%s: Immutable is", name)
		again, err := ParseHeader(bytes.Clone(h.Bytes()))
		if err != nil || !slices.Equal(tagsOf(again), tagsOf(h)) {
			t.Errorf("%s: again: %v", name, err)
		}
	}
}

func TestHeaderWith(t *testing.T) {
	t.Parallel()
	h := region(t, TagHeaderImmutable, Entry{TagName, TypeString, "hello"}, Entry{TagVersion, TypeString, "1"})
	before := bytes.Clone(h.Bytes())
	x := added(t, h, Entry{TagFileStates, TypeChar, []byte{0}}, Entry{TagInstallTime, TypeInt32, []uint32{7}}, Entry{TagVersion, TypeString, "2"})
	if !bytes.Equal(h.Bytes(), before) || h.Has(TagInstallTime) || h.Text(TagVersion) != "1" {
		t.Error("with changed the header that it was called on")
	}
	region := len(before) - introSize
	if !bytes.Equal(x.Bytes()[introSize:introSize+3*indexSize], before[introSize:introSize+3*indexSize]) || !bytes.Contains(x.Bytes(), before[introSize+3*indexSize:]) {
		t.Errorf("the region of %d bytes is another", region)
	}
	if n, ok := x.Int(TagInstallTime); !ok || n != 7 || x.Text(TagVersion) != "2" || x.Text(TagName) != "hello" {
		t.Errorf("values %d, %q", n, x.Text(TagVersion))
	}
	y := added(t, x, Entry{TagInstallTime, TypeInt32, []uint32{8}})
	if n, _ := y.Int(TagInstallTime); n != 8 || len(y.Bytes()) != len(x.Bytes()) || y.Text(TagVersion) != "2" {
		t.Errorf("a second time: %d, %d bytes, had %d", n, len(y.Bytes()), len(x.Bytes()))
	}
}

// added returns a header with more entries.
func added(t testing.TB, h *Header, entries ...Entry) *Header {
	t.Helper()
	return require.Value(h.with(slices.Collect(maps.Values(region(t, TagHeaderImmutable, entries...).entries))))(t)
}

func TestParseHeaderHostile(t *testing.T) {
	t.Parallel()
	good := region(t, TagHeaderImmutable, Entry{TagName, TypeString, "hello"}, Entry{TagFileSizes, TypeInt32, []uint32{1, 2}}).Bytes()
	change := func(at int, value uint32) []byte {
		b := bytes.Clone(good)
		copy(b[at:], repotest.Words(nil, value))
		return b
	}
	const first = introSize + indexSize // the entry of the name
	const store = introSize + 3*indexSize
	tests := map[string][]byte{
		"empty":                   nil,
		"cut":                     good[:len(good)-1],
		"rubbish behind":          append(bytes.Clone(good), 0),
		"no entries":              repotest.Words(nil, 0, 0),
		"a billion entries":       repotest.Words(nil, 1e9, 16),
		"gigabytes of data":       repotest.Words(nil, 1, 0xffffffff),
		"region: wrong type":      change(introSize+4, 6),
		"region: wrong count":     change(introSize+12, 15),
		"region: outside":         change(introSize+8, 1000),
		"region: negative":        change(introSize+8, 0x80000000),
		"trailer: other tag":      change(len(good)-16, 62),
		"trailer: other type":     change(len(good)-12, 6),
		"trailer: too many":       change(len(good)-8, 0xffffffff-16*9+1),
		"trailer: positive":       change(len(good)-8, 48),
		"trailer: none":           change(len(good)-8, 0),
		"trailer: odd":            change(len(good)-8, 0xffffffff-46),
		"trailer: minimum":        change(len(good)-8, 0x80000000),
		"tag below all":           change(first, 99),
		"region twice":            change(first, 63),
		"type null":               change(first+4, 0),
		"unknown type":            change(first+4, 10),
		"offset negative":         change(first+8, 0xffffffff),
		"offset outside":          change(first+8, 1<<20),
		"offset in the trailer":   change(first+indexSize+8, uint32(len(good)-store-12)),
		"not aligned":             change(first+indexSize+8, 5),
		"count 0":                 change(first+12, 0),
		"two strings in one":      change(first+12, 2),
		"count too large":         change(first+indexSize+12, 0x7fffffff),
		"count beyond the region": change(first+indexSize+12, 6),
		"string does not end":     append(repotest.Words(nil, 1, 3, 1000, 6, 0, 1), "abc"...),
		"array does not end":      append(repotest.Words(nil, 1, 4, 1117, 8, 0, 3), "a\x00b\x00"...),
		"overlap":                 append(repotest.Words(nil, 3, 4, 1000, 6, 0, 1, 1001, 6, 0, 1, 1002, 6, 0, 1), "abc\x00"...),
	}
	for name, in := range tests {
		assert.ErrorIsf(t, assert.Err(ParseHeader(in)), ErrFormat, "%s", name)
	}
	assert.NoError(t, assert.Err(ParseHeader(good)))
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	h := region(t, TagHeaderImmutable,
		Entry{TagName, TypeString, "hello"}, Entry{TagVersion, TypeString, "1.0"}, Entry{TagRelease, TypeString, "2"}, Entry{TagEpoch, TypeInt32, []uint32{3}}, Entry{TagArch, TypeString, "x86_64"},
		Entry{TagProvideName, TypeStringArray, []string{"hello(x)", "api"}}, Entry{TagProvideFlags, TypeInt32, []uint32{0, 8}}, Entry{TagProvideVersion, TypeStringArray, []string{"", "2"}},
		Entry{TagRequireName, TypeStringArray, []string{"glibc", "rpmlib(PayloadIsZstd)", "(a if b)", "(bad", "wish", "/bin/sh"}},
		Entry{TagRequireFlags, TypeInt32, []uint32{12, 1<<24 | 10, 0, 0, 1 << 19, 1<<8 | 1<<9}},
		Entry{TagRequireVersion, TypeStringArray, []string{"2.17", "5.4.18-1", "", "", "", ""}},
		Entry{TagConflictName, TypeStringArray, []string{"old", "(x and y)"}}, Entry{TagConflictFlags, TypeInt32, []uint32{2, 0}}, Entry{TagConflictVersion, TypeStringArray, []string{"1:5-%{x}", ""}},
		Entry{TagObsoleteName, TypeStringArray, []string{"gone"}}, Entry{TagObsoleteFlags, TypeInt32, []uint32{10}}, Entry{TagObsoleteVersion, TypeStringArray, []string{"4"}},
		Entry{TagBaseNames, TypeStringArray, []string{"a", "b", ""}}, Entry{TagDirNames, TypeStringArray, []string{"/usr/", "/"}}, Entry{TagDirIndexes, TypeInt32, []uint32{0, 1, 1}})
	m := require.Value(h.Metadata())(t)
	want := Metadata{
		Name: "hello", EVR: EVR{"3", "1.0", "2"}, Arch: "x86_64",
		Provides:  []Relation{{Name: "hello(x)"}, {"api", "=", EVR{Version: "2"}}, {"hello", "=", EVR{"3", "1.0", "2"}}},
		Requires:  []Requirement{{Relation: Relation{"glibc", ">=", EVR{Version: "2.17"}}}, {Operator: "if", Parts: []Requirement{{Relation: Relation{Name: "a"}}, {Relation: Relation{Name: "b"}}}}, {Relation: Relation{Name: "/bin/sh"}}},
		Conflicts: []Requirement{{Relation: Relation{"old", "<", EVR{"1", "5", "%{x}"}}}, {Operator: "and", Parts: []Requirement{{Relation: Relation{Name: "x"}}, {Relation: Relation{Name: "y"}}}}},
		Obsoletes: []Relation{{"gone", "<=", EVR{Version: "4"}}},
		Files:     []string{"/usr/a", "/b", "/"},
	}
	assert.Same(t, want, m)
	for name, entries := range map[string][]Entry{
		"no name":               {{TagVersion, TypeString, "1"}},
		"fewer flags":           {{TagName, TypeString, "a"}, {TagVersion, TypeString, "1"}, {TagProvideName, TypeStringArray, []string{"a", "b"}}, {TagProvideFlags, TypeInt32, []uint32{0}}, {TagProvideVersion, TypeStringArray, []string{"", ""}}},
		"no versions":           {{TagName, TypeString, "a"}, {TagVersion, TypeString, "1"}, {TagProvideName, TypeStringArray, []string{"a"}}, {TagProvideFlags, TypeInt32, []uint32{8}}},
		"folder out of range":   {{TagName, TypeString, "a"}, {TagVersion, TypeString, "1"}, {TagBaseNames, TypeStringArray, []string{"a"}}, {TagDirNames, TypeStringArray, []string{"/"}}, {TagDirIndexes, TypeInt32, []uint32{1}}},
		"fewer folder indexes":  {{TagName, TypeString, "a"}, {TagVersion, TypeString, "1"}, {TagBaseNames, TypeStringArray, []string{"a", "b"}}, {TagDirNames, TypeStringArray, []string{"/"}}, {TagDirIndexes, TypeInt32, []uint32{0}}},
		"names that are a bomb": {{TagName, TypeString, "a"}, {TagVersion, TypeString, "1"}, {TagBaseNames, TypeStringArray, make([]string, 20000)}, {TagDirNames, TypeStringArray, []string{strings.Repeat("x", 1<<20)}}, {TagDirIndexes, TypeInt32, make([]uint32, 20000)}},
	} {
		assert.ErrorIsf(t, assert.Err(region(t, TagHeaderImmutable, entries...).Metadata()), ErrFormat, "%s", name)
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(region(f, TagHeaderImmutable, Entry{TagName, TypeString, "hello"}, Entry{TagVersion, TypeString, "1"}, Entry{TagFileSizes, TypeInt32, []uint32{1, 2}}).Bytes())
	signed := region(f, TagHeaderSignatures, Entry{TagSummary, TypeI18NString, []string{"a", "b"}}, Entry{TagFileModes, TypeInt16, []uint16{1}})
	f.Add(added(f, signed, Entry{TagInstallTime, TypeInt32, []uint32{7}}).Bytes())
	f.Fuzz(func(t *testing.T, blob []byte) {
		h, err := ParseHeader(blob)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, tag := range tagsOf(h) {
			_, _, _, _ = h.Text(tag), h.Texts(tag), h.Ints(tag), h.Binary(tag)
		}
		_, _ = h.Metadata()
		_, _ = h.fileList()
		x := added(t, h, Entry{TagInstallTime, TypeInt32, []uint32{7}})
		if n, _ := x.Int(TagInstallTime); n != 7 || x.Text(TagName) != h.Text(TagName) {
			t.Fatal("with changed something")
		}
	})
}

// TestPaths: names share folders, so a small header can have long paths, and the archive names files too.
func TestPaths(t *testing.T) {
	t.Parallel()
	const folder = 1 << 20
	names := slices.Repeat([]string{"f"}, maxPaths/folder)
	h := require.Value(ParseHeader(repotest.Region(t, repotest.Immutable,
		repotest.Entry{Tag: uint32(TagDirNames), Value: []string{"/" + strings.Repeat("d", folder)}},
		repotest.Entry{Tag: uint32(TagBaseNames), Value: names},
		repotest.Entry{Tag: uint32(TagDirIndexes), Value: make([]uint32, len(names))})))(t)
	assert.ErrorIsf(t, assert.Err(h.paths()), ErrFormat, "paths of more than %d bytes", maxPaths)
	member := cpioMagic + strings.Repeat("00000000", 11) + fmt.Sprintf("%08x", maxCPIOName+1) + "00000000"
	_, err := (&archive{in: strings.NewReader(member + strings.Repeat("n", maxCPIOName+1))}).next()
	assert.ErrorIsf(t, err, ErrFormat, "a name of %d bytes", maxCPIOName+1)
}
