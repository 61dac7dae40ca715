package apt

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

func TestReadSources(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"etc/apt/sources.list": {Data: []byte(`# comment
deb http://archive.example/ubuntu xenial main restricted # more
deb-src http://archive.example/ubuntu xenial main
deb	[ arch=amd64,i386 signed-by=/k/a.gpg,/k/b.gpg trusted=yes check-valid-until=no by-hash=no lang=en ]	http://x.example/ ./
deb [arch+=i386] http://y.example/ ./
deb [arch=arm64 arch+=amd64] http://y.example/ ./
deb cdrom:[Debian]/ bookworm main
`)},
		"etc/apt/sources.list.d/z.list": {Data: []byte("deb https://z.example/p stable main\r\n")},
		"etc/apt/sources.list.d/debian.sources": {Data: []byte(`Types: deb
# a comment within
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian.gpg

Enabled: no
Types: deb
URIs: http://off.example/

Types: deb-src
URIs: http://src.example/
Suites: x
Components: y

types: deb deb-src
uris: http://sec.example/debian-security
suites: bookworm-security
components: main
architectures: amd64 arm64
check-valid-until: no
trusted: yes
by-hash: force
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abcd
 -----END PGP PUBLIC KEY BLOCK-----
`)},
		"etc/apt/sources.list.d/ignored.save":  {Data: []byte("nonsense")},
		"etc/apt/sources.list.d/.hidden.list":  {Data: []byte("nonsense")},
		"etc/apt/sources.list.d/dir.list/file": {Data: []byte("nonsense")},
	}
	got := require.Value(ReadSources(root))(t)
	want := []Source{
		{Origin: "etc/apt/sources.list:2", URIs: []string{"http://archive.example/ubuntu"}, Suites: []string{"xenial"}, Components: []string{"main", "restricted"}},
		{
			Origin: "etc/apt/sources.list:4", URIs: []string{"http://x.example/"}, Suites: []string{"./"}, Components: []string{}, Architectures: []string{"amd64", "i386"},
			SignedBy: []string{"/k/a.gpg", "/k/b.gpg"}, Trusted: true, NoValidUntil: true, NoByHash: true,
		},
		{Origin: "etc/apt/sources.list:5", URIs: []string{"http://y.example/"}, Suites: []string{"./"}, Components: []string{}},
		{Origin: "etc/apt/sources.list:6", URIs: []string{"http://y.example/"}, Suites: []string{"./"}, Components: []string{}, Architectures: []string{"arm64", "amd64"}},
		{
			Origin: "etc/apt/sources.list.d/debian.sources (entry 1)", URIs: []string{"http://deb.example/debian"},
			Suites: []string{"bookworm", "bookworm-updates"}, Components: []string{"main", "contrib"}, SignedBy: []string{"/usr/share/keyrings/debian.gpg"},
		},
		{
			Origin: "etc/apt/sources.list.d/debian.sources (entry 4)", URIs: []string{"http://sec.example/debian-security"}, Suites: []string{"bookworm-security"},
			Components: []string{"main"}, Architectures: []string{"amd64", "arm64"}, Trusted: true, NoValidUntil: true,
			Key: "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabcd\n-----END PGP PUBLIC KEY BLOCK-----\n",
		},
		{Origin: "etc/apt/sources.list.d/z.list:1", URIs: []string{"https://z.example/p"}, Suites: []string{"stable"}, Components: []string{"main"}},
	}
	assert.Samef(t, want, got, "ReadSources (-want +got)")
	if got, err := ReadSources(fstest.MapFS{}); err != nil || got != nil {
		t.Errorf("a base without apt: %v, %v", got, err)
	}
}

func TestBadSources(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, text, say string }{
		{"a.list", "\nrpm http://x y z", `etc/apt/sources.list.d/a.list:2: a line begins with "rpm"`},
		{"a.list", "deb http://x", "want deb URI suite"},
		{"a.list", "deb [arch=amd64 http://x y z", "closing bracket"},
		{"a.list", "deb [arch] http://x y z", "name=value"},
		{"a.list", "deb [trusted=maybe] http://x y z", "want yes or no"},
		{"a.list", "deb [arch-=i386] http://x y z", "arch-="},
		{"a.list", `deb "http://x y" z u`, "quotes"},
		{"a.list", "deb http://x suite", "without components"},
		{"a.list", "deb http://x flat/ main", "cannot have components"},
		{"a.list", "deb http://x ../up main", "not a path below"},
		{"a.list", "deb http://x ../up/", "not a path below"},
		{"a.list", "deb http://x s ../../c", "not a path below"},
		{"a.sources", "URIs: http://x", "no Types"},
		{"a.sources", "Types: deb", "no URIs"},
		{"a.sources", "Types: deb\nURIs: http://x", "no suite"},
		{"a.sources", "Types: deb\nURIs: http://x\nSuites: s", "without components"},
		{"a.sources", "Types: deb\nURIs: http://x\nSuites: s\nComponents: c\nTrusted: perhaps", "want yes or no"},
		{"a.sources", "Types deb", "malformed"},
		{"a.list", strings.Repeat("#", 1<<20+1), "larger"},
	} {
		_, err := ReadSources(fstest.MapFS{"etc/apt/sources.list.d/" + tt.file: {Data: []byte(tt.text)}})
		if !errors.Is(err, distros.ErrSources) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%.80q: %v; want distros.ErrSources with %q", tt.text, err, tt.say)
		}
	}
}

func FuzzSources(f *testing.F) {
	for _, s := range []string{"deb http://x y z", "deb [arch=amd64 signed-by=/x] http://x ./", "deb-src a b c # d", "deb cdrom:[x]/ a b"} {
		f.Add([]byte(s), false)
	}
	for _, s := range []string{"Types: deb\nURIs: http://x\nSuites: s\nComponents: c\n", "Types: deb\nURIs: http://x\nSuites: ./\nSigned-By:\n -----BEGIN\n .\n x\n", "Enabled: no\n"} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, paragraphs bool) {
		parse := parseOneLine
		if paragraphs {
			parse = parseDeb822
		}
		s, err := parse("f", data)
		if err != nil && !errors.Is(err, distros.ErrSources) {
			t.Error(err)
		}
		for _, s := range s { // what every source must have, whatever format it came from
			if len(s.URIs) == 0 || len(s.Suites) == 0 || s.check() != nil {
				t.Errorf("unusable source %+v", s)
			}
			for _, c := range append(s.Components, s.Suites...) {
				if strings.Contains(c, "..") && !safePath(strings.Trim(c, "/")) {
					t.Errorf("path escape in %+v", s)
				}
			}
		}
	})
}
