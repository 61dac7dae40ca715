package rpm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	const guid = "https://cdn.example.com/2/core/2.0/x86_64/3cea6107"
	for _, c := range []struct{ repository, base, href, want string }{
		{guid, "", "Packages/a b+c~1.rpm", guid + "/Packages/a%20b+c~1.rpm"},
		{guid, "", "./a.rpm", guid + "/a.rpm"},
		{guid, "https://other.example.com/x/", "a.rpm", "https://other.example.com/x/a.rpm"},
		// the form of Amazon's repositories: five steps lead to the root of the host
		{guid, "", "../../../../../blobstore/13b7/kernel-devel.rpm", "https://cdn.example.com/blobstore/13b7/kernel-devel.rpm"},
		{guid, "", "../a.rpm", "https://cdn.example.com/2/core/2.0/x86_64/a.rpm"},
		{guid, "", "../../../../../../a.rpm", ""},
		{guid, "", "../a/../b.rpm", ""},
		{guid, "", "a/../../b.rpm", ""},
		{guid, "", "..", ""},
		{guid, "", "../", ""},
		{guid, "", "%2e%2e/a.rpm", ""},
		{guid, "", "/Packages//./a.rpm", guid + "/Packages/a.rpm"},
		{guid, "", "/../a.rpm", ""},
		{guid, "", "https://other.example.com/x/a+b.rpm", "https://other.example.com/x/a+b.rpm"},
		{guid, "https://third.example.com", "https://other.example.com/x/a.rpm", "https://other.example.com/x/a.rpm"},
		{guid, "", "file:///etc/a.rpm", ""},
		{guid, "", "https://user:pw@example.com/a.rpm", ""},
		{guid, "", "https://other.example.com/../a.rpm", ""},
		{"https://cdn.example.com", "", "../a.rpm", ""},
		{"file:///srv/repository", "", "../a.rpm", ""},
		{guid, "ftp://example.com/", "a.rpm", ""},
	} {
		got, err := joinURL(c.repository, c.base, c.href)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("join(%s, %s, %s) = %q, %v; want %q", c.repository, c.base, c.href, got, err, c.want)
		}
	}
}

func FuzzRepomd(f *testing.F) {
	f.Add([]byte(`<repomd><revision>1</revision><data type="primary"><checksum type="sha256">` + strings.Repeat("0a", 32) + `</checksum><location href="a/b"/><size>1</size><timestamp>1.5</timestamp></data></repomd>`))
	f.Add([]byte(`<repomd><data type="x"/><data type="modules"><size>-</size></data><data type="primary"><checksum type="SHA512"> ` + strings.Repeat("0A", 64) + ` </checksum><location href="https://x//a"/><timestamp>x</timestamp></data></repomd>`))
	f.Add([]byte(`<repomd><data type="primary_db"><checksum type="sha512">` + strings.Repeat("0a", 64) + `</checksum><location xml:base="http://x/" href="a"/></data></repomd>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		md, err := parseRepomd(data)
		if err != nil {
			assert.ErrorIs(t, err, distros.ErrIndex)
			return
		}
		for kind, l := range md.Lists {
			if len(l.Sum.SHA256) != 64 && len(l.Sum.SHA512) != 128 || l.Sum.Size < 0 || l.Unpacked < 0 {
				t.Errorf("list %q: %+v", kind, l)
			}
			if u, err := joinURL("https://h/r", l.Base, l.Href); err != nil || strings.Contains(u, "/../") {
				t.Errorf("list %q is at %q, %v", kind, u, err)
			}
		}
	})
}

func TestRealRepomd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, revision  string
		newest          int64
		primary         string // the beginning of its location
		size, open      int64
		modules, byFile bool
	}{
		{"fedora-38-repomd.xml", "1681418230", 1681418230, "repodata/f6dee453a7f8", 18320782, 167638461, false, true},
		{"centos-stream-9-appstream.xml", "9-stream", 1736761573, "repodata/c03bb2ebc33b", 3597627, 51840420, true, false},
	} {
		text := require.Value(os.ReadFile(filepath.Join("testdata/real", tt.file)))(t)
		r, err := parseRepomd(text)
		require.NoErrorf(t, err, "%s", tt.file)
		l, ok := r.Lists["primary"]
		if !ok || l.Href[:len(tt.primary)] != tt.primary || filepath.Ext(l.Href) != ".gz" || l.Sum.Size != tt.size || l.Unpacked != tt.open {
			t.Errorf("%s: primary list %+v", tt.file, l)
		}
		_, modules := r.Lists["modules"]
		_, filelists := r.Lists["filelists"]
		if r.Revision != tt.revision || r.Newest != tt.newest || modules != tt.modules || filelists != tt.byFile {
			t.Errorf("%s: revision %q of %d, modules %v, filelists %v", tt.file, r.Revision, r.Newest, modules, filelists)
		}
	}
}

// TestRealPrimary reads a package of Fedora's list: see testdata/real/README.
func TestRealPrimary(t *testing.T) {
	t.Parallel()
	f := require.Value(os.Open("testdata/real/fedora-38-0ad-data.xml"))(t)
	defer f.Close() //nolint:errcheck // opened for reading
	b := newBuilder(&repo{source: repoconf.Source{ID: "fedora"}, base: "https://example.com/os"}, Options{Arch: "x86_64"})
	require.NoError(t, b.readPrimary(f))
	x := NewIndex("x86_64", b.packages)
	p, _ := x.Candidate("0ad-data")
	assert.Same(t, distros.Package{
		Name: "0ad-data", Version: "0.0.26-2.fc38", Arch: "noarch", Size: 1493523190, URL: "https://example.com/os/Packages/0/0ad-data-0.0.26-2.fc38.noarch.rpm",
		SHA256: "9d4882481909c8c5cdd4b59988f17fc015d8703f5fbc587d07bd44038fbdb9ac",
	}, p.Package)
	assert.Equal(t, "[0ad-data = 0.0.26-2.fc38] [dejavu-sans-fonts dejavu-sans-mono-fonts] [] []",
		fmt.Sprint(p.Metadata.Provides, p.Metadata.Requires, p.Metadata.Conflicts, p.Metadata.Obsoletes))
}
