package dpkg

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const testStatus = `Package: base-files
Status: install ok installed
Architecture: amd64
Version: 12.4
Provides: base, virtual (= 3), versioned (= 1:2)
Conffiles:
 /etc/issue 0123456789abcdef0123456789abcdef
Description: d

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
Provides: virtual

Package: libx
Status: hold ok installed
Architecture: amd64
Multi-Arch: same
Version: 1

Package: libx
Status: install ok triggers-pending
Architecture: i386
Multi-Arch: same
Version: 1

Package: tzdata
Status: install ok installed
Architecture: all
Version: 2024a

Package: half
Status: install ok half-configured
Architecture: amd64
Version: 1
`

func readStatus(t *testing.T, in string) *Status {
	t.Helper()
	return require.Value(ReadStatus(strings.NewReader(in)))(t)
}

func TestStatusLookups(t *testing.T) {
	t.Parallel()
	s := readStatus(t, testStatus)
	for query, want := range map[[2]string]string{
		{"base-files", ""}: "12.4", {"base-files", "amd64"}: "12.4", {"base-files", "arm64"}: "", {"gone", ""}: "", {"half", ""}: "",
		{"libx", "i386"}: "1", {"libx", "arm64"}: "", {"tzdata", "arm64"}: "2024a", {"none", ""}: "",
	} {
		p, ok := s.Find(query[0], query[1])
		if p.Get("Version") != want || ok != (want != "") {
			t.Errorf("Find(%q) = %q, %v; want %q", query, p.Get("Version"), ok, want)
		}
	}
	assert.Equalf(t, 4, len(s.Packages()), "installed packages")
	var empty Status
	if _, ok := empty.Find("x", ""); ok || len(empty.Packages()) != 0 || len(empty.With()) != 0 {
		t.Error("the zero Status is not empty")
	}
}

func TestReadStatusErrors(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Version: 1\n", "Package: ../x\nStatus: install ok installed\n", "x"} {
		assert.ErrorIsf(t, assert.Err(ReadStatus(strings.NewReader(in))), ErrFormat, "%q", in)
	}
}

func paragraphs(t *testing.T, texts ...string) []Paragraph {
	t.Helper()
	var out []Paragraph
	for _, text := range texts {
		p := require.Value(ParseParagraph([]byte(text)))(t)
		out = append(out, p)
	}
	return out
}

func TestStatusWith(t *testing.T) {
	t.Parallel()
	s := readStatus(t, testStatus)
	assert.Equalf(t, testStatus+"\n", string(s.With()), "nothing added, but the text changed")
	add := paragraphs(t,
		"Package: make\nVersion: 4.3\nArchitecture: amd64\nFilename: pool/m/make.deb\nSize: 1\nSHA256: 0\nDescription: x\n y\n",
		"Version: 12.5\nPackage: base-files\nArchitecture: amd64\n",
		"Package: gcc-12\nVersion: 12.2\nArchitecture: amd64\nConffiles:\n /etc/x 0123\n",
		"Package: libx\nVersion: 2\nArchitecture: i386\nMulti-Arch: same\n",
		"Package: tzdata\nVersion: 2025b\nArchitecture: amd64\n")
	got := string(s.With(add...))
	want := `Package: base-files
Status: install ok installed
Version: 12.5
Architecture: amd64

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
Provides: virtual

Package: libx
Status: hold ok installed
Architecture: amd64
Multi-Arch: same
Version: 1

Package: libx
Status: install ok installed
Version: 2
Architecture: i386
Multi-Arch: same

Package: tzdata
Status: install ok installed
Version: 2025b
Architecture: amd64

Package: half
Status: install ok half-configured
Architecture: amd64
Version: 1

Package: gcc-12
Status: install ok installed
Version: 12.2
Architecture: amd64
Conffiles:
 /etc/x 0123

Package: make
Status: install ok installed
Version: 4.3
Architecture: amd64
Description: x
 y

`
	assert.Equal(t, want, got)
	slices.Reverse(add)
	assert.Equalf(t, got, string(s.With(add...)), "the order of the arguments matters")
	assert.Equalf(t, got, string(readStatus(t, got).With(add...)), "adding the same again changes the file")
	if got := string(s.With(paragraphs(t, "Package: libx\nVersion: 3\nArchitecture: all\n")...)); strings.Count(got, "Package: libx\n") != 1 {
		t.Errorf("a package that is not Multi-Arch: same must replace both of libx:\n%s", got)
	}
}

// TestStatusReadByDpkg lets dpkg read the file that With writes.
func TestStatusReadByDpkg(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("no dpkg-query on this machine")
	}
	s := readStatus(t, "Package: base-files\nStatus: install ok installed\nMaintainer: A <a@example.org>\nArchitecture: amd64\nVersion: 12.4\nDescription: base\n")
	text := s.With(paragraphs(t,
		"Package: make\nVersion: 4.3-4.1\nArchitecture: amd64\nMaintainer: A <a@example.org>\nInstalled-Size: 10\nDepends: libc6 (>= 2.34)\nDescription: builds\n more of it\n .\n end\n"+
			"Homepage: https://example.org\nTag: x\nSection: devel\nPriority: optional\nFilename: pool/x\nSize: 10\nMD5sum: 0\nSHA256: 0\n",
		"Package: gcc-12\nVersion: 12.2.0-14\nArchitecture: amd64\nMaintainer: A <a@example.org>\nDescription: compiles\n")...)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), text, 0o600))
	for _, sub := range []string{"info", "updates"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o750))
	}
	cmd := exec.CommandContext(t.Context(), "dpkg-query", "--admindir="+dir, "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	want := "ii base-files 12.4\nii gcc-12 12.2.0-14\nii make 4.3-4.1\n"
	if err != nil || string(out) != want {
		t.Errorf("dpkg-query: %v %s\n%s\nwant:\n%s", err, stderr.String(), out, want)
	}
	assert.Equalf(t, false, strings.Contains(stderr.String(), "parsing file"), "dpkg complains: %s", stderr.String())
}

func FuzzStatus(f *testing.F) {
	f.Add(testStatus)
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ReadStatus(strings.NewReader(in))
		if err != nil {
			return
		}
		again, err := ReadStatus(strings.NewReader(string(s.With(s.Packages()...))))
		require.NoErrorf(t, err, "our own text is not read")
		for _, p := range s.Packages() {
			if _, ok := again.Find(p.Get("Package"), ""); !ok {
				t.Errorf("%q is gone", p.Get("Package"))
			}
		}
	})
}
