package rpmdb

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

const known = "github.com/knqyf263/go-rpmdb"

// systemFile reads the database of a real system. They come with the library that the tests compare with: 18
// systems, 280 MB in all, too large to copy into this repository.
func systemFile(t testing.TB, name string) []byte {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", known).Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skipf("the sources of %s are not here: %v", known, err)
	}
	return require.Value(os.ReadFile(filepath.Join(dir, "pkg", "testdata", name)))(t)
}

// rooted returns a system whose database is one file.
func rooted(file string, data []byte) fstest.MapFS {
	folder := "var/lib/rpm"
	if file == "Packages.db" {
		folder = "usr/lib/sysimage/rpm"
	}
	return fstest.MapFS{folder + "/" + file: {Data: data}}
}

func read(t testing.TB, root fs.FS) *Database {
	t.Helper()
	return require.Value(Read(root))(t)
}

// apply applies the result of With to root, as its caller does.
func apply(root fstest.MapFS, changed map[string][]byte, removed []string) fstest.MapFS {
	out := maps.Clone(root)
	for _, name := range removed {
		delete(out, name)
	}
	for name, data := range changed {
		out[name] = &fstest.MapFile{Data: data}
	}
	return out
}

// entries are those of a package from "name version-release arch".
func entries(text string, more ...repotest.Entry) []repotest.Entry {
	words := strings.Fields(text)
	version, release, _ := strings.Cut(words[1], "-")
	all := []repotest.Entry{
		entry(rpmfile.TagName, words[0]), entry(rpmfile.TagVersion, version), entry(rpmfile.TagRelease, release),
		entry(rpmfile.TagInstallTime, []uint32{1700000000}),
	}
	if len(words) > 2 { // keys have no architecture
		all = append(all, entry(rpmfile.TagArch, words[2]))
	}
	return append(all, more...)
}

func entry(tag rpmfile.Tag, value any) repotest.Entry {
	return repotest.Entry{Tag: uint32(tag), Value: value}
}

// made makes the header of a package from "name version-release arch" and the names that it provides besides.
func made(t testing.TB, text string) *rpmfile.Header {
	t.Helper()
	words := strings.Fields(text)
	return header(t, entries(text, entry(rpmfile.TagProvideName, append(words[:1:1], words[min(len(words), 3):]...)))...)
}

// header returns a header with entries and without a region.
func header(t testing.TB, all ...repotest.Entry) *rpmfile.Header {
	t.Helper()
	return require.Value(rpmfile.ParseHeader(repotest.Header(t, all...)))(t)
}

// names returns packages as "name version-release arch".
func names(headers []*rpmfile.Header) []string {
	out := []string{}
	for _, h := range headers {
		out = append(out, strings.TrimSpace(h.Text(rpmfile.TagName)+" "+h.Text(rpmfile.TagVersion)+"-"+h.Text(rpmfile.TagRelease)+" "+h.Text(rpmfile.TagArch)))
	}
	return out
}

// checkHostile checks that a reader notices each change of a valid file, and where it is cut, at every step bytes.
func checkHostile(t *testing.T, good []byte, read func([]byte) (Contents, uint32, error), step int, changes map[string]func([]byte)) {
	t.Helper()
	for name, change := range changes {
		bad := bytes.Clone(good)
		change(bad)
		_, _, err := read(bad)
		assert.ErrorIsf(t, err, ErrFormat, "%s", name)
	}
	for n := 0; n < len(good); n += step {
		_, _, err := read(good[:n])
		assert.ErrorIsf(t, err, ErrFormat, "cut to %d bytes", n)
	}
}

// fuzzRead checks that a reader either refuses a file or reads the same from what is written of it.
func fuzzRead(f *testing.F, read func([]byte) (Contents, uint32, error), write func(Contents, uint32) []byte) {
	f.Fuzz(func(t *testing.T, data []byte) {
		c, detail, err := read(data)
		if err != nil {
			assert.ErrorIsf(t, err, ErrFormat, "not ErrFormat")
			return
		}
		again, _, err := read(write(c, detail))
		for _, records := range [][]Record{c.Records, again.Records} {
			slices.SortStableFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Number, b.Number), bytes.Compare(a.Blob, b.Blob)) })
		}
		if diff := gocmp.Diff(c, again); err != nil || diff != "" {
			t.Errorf("written again: %v\n%s", err, diff)
		}
	})
}

// bytesOf returns the bytes of the headers, sorted.
func bytesOf(headers []*rpmfile.Header) []string {
	var out []string
	for _, h := range headers {
		out = append(out, string(h.Bytes()))
	}
	slices.Sort(out)
	return out
}
