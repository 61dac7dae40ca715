package lockfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/lockfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

var (
	sum256 = strings.Repeat("1e2", 21) + "0" // digits and an e: a number, if it had no quotes and no prefix
	sum512 = strings.Repeat("ab", 64)
)

func pkg(name, version string) distros.Package {
	return distros.Package{Name: name, Version: version, Arch: "amd64", URL: "http://mirror.example.com/debian/pool/" + name + "_" + version + ".deb", SHA256: sum256, Size: 7}
}

// full has everything that a section can have, in awkward words.
func full() *lockfile.Target {
	rpm := distros.Package{
		Name: "yes", Version: "1:5.14.0-427.13.1.el9_4", Arch: "noarch", URL: "https://mirror.example.com/a%2Bb/x.rpm?sig=1&x=\"y\"", SHA512: sum512,
		Size: 1 << 40, Replaces: "1.0", Keys: []string{"ABCD", "0123"},
	}
	return &lockfile.Target{
		Tag: "535.261.03-rocky9", System: "rocky9", Driver: "535.261.03", Arch: "amd64", Kernels: []string{"6.12:latest cloud-amd64", "all"},
		Asked: recipe.Request{
			Base: "debian:12", Mirror: "deb.example.com/debian=http://mirror.example.com/debian", Components: []string{"contrib"},
			Repositories: []matrix.Repository{{URIs: []string{"https://x.example.com/a b"}, Suites: []string{"bookworm"}, Components: []string{"main"}}, {BaseURLs: []string{"https://x.example.com/$basearch/"}}},
			OnlyThese:    true,
			Wants: recipe.Wants{Image: []string{"(a if b else c)", "# no comment", "null", "12", "- x", "gcc"}, Compiler: []string{"kernel-devel-uname-r = 5.14.0"},
				Headers: map[string][]string{"5.14.0-427.el9.x86_64+rt": {"x = 1"}, "4.18": {"y"}}, Driver: []string{"libcuda1=535.261.03-1"}},
			Archive: &fetch.File{URL: "https://us.example.com/x.run", SHA256: sum256, Size: 3},
		},
		Pins: recipe.Pins{
			Base:     recipe.Base{Name: "docker.io/library/debian:12", Digest: "sha256:" + sum256},
			Packages: []distros.Package{pkg("gcc", "4:12.2.0-3"), rpm}, Compiler: []distros.Package{rpm},
			Headers: map[string][]distros.Package{"5.14.0-427.el9.x86_64+rt": {pkg("h", "~1")}, "4.18": nil}, Driver: []distros.Package{pkg("libcuda1", "535")},
		},
	}
}

func encoded(t testing.TB, l *lockfile.Lock) []byte {
	t.Helper()
	return require.Value(l.Encode())(t)
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	l := &lockfile.Lock{Targets: map[string]*lockfile.Target{}}
	for _, arch := range []string{"arm64", "amd64"} {
		one := full()
		one.Arch = arch
		l.Targets[one.Name()] = one
	}
	data := encoded(t, l)
	back, err := lockfile.Parse("matrix.lock", data, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	assert.Same(t, l, back)
	assert.Equalf(t, string(data), string(encoded(t, back)), "the bytes differ")
	want := require.Value(os.ReadFile("testdata/matrix.lock"))(t)
	assert.Samef(t, string(want), string(data), "the format has changed")
	for line := range strings.Lines(string(data)) {
		if strings.Count(line, "digest: sha") > 1 {
			t.Errorf("two packages on a line: %s", line)
		}
	}
	if s := string(data); strings.Index(s, "/amd64") > strings.Index(s, "/arm64") {
		t.Error("not sorted")
	}
	for _, want := range []string{"535.261.03-rocky9/arm64", "none"} {
		some, err := lockfile.Parse("x", data, func(name string) bool { return name == want })
		if _, ok := some.Targets[want]; err != nil || ok != (want != "none") || len(some.Targets) > 1 || ok && cmp.Diff(l.Targets[want], some.Targets[want]) != "" {
			t.Errorf("%s: %v, %v", want, some.Names(), err)
		}
	}
	empty, err := lockfile.Parse("x", encoded(t, &lockfile.Lock{}), nil)
	if err != nil || len(empty.Targets) != 0 {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, &lockfile.Lock{Targets: map[string]*lockfile.Target{full().Name(): full()}}))
	for what, change := range map[string][2]string{
		"its schema is 0":            {"schema: 1", "schema: 0"},
		"is no digest of a file":     {"digest: sha512:ab", "digest: sha512:xy"},
		"is no digest":               {"digest: sha256:1e2", "digest: sha256:1E2"},
		"no address with http":       {"https://mirror.example.com/a%2Bb", "file:///etc/a%2Bb"},
		"is not TAG/ARCH":            {"arch: amd64\n", "arch: arm64\n"},
		"name, version and arch":     {`{name: "yes"`, `{name: ""`},
		"colour":                     {"    base:\n", "    colour: red\n    base:\n"},
		"merge with conflicts":       {"targets:", "<<<<<<< ours\ntargets:"},
		"more than one document":     {"schema: 1", "schema: 1\n---\nschema: 1"},
		"-1 bytes is no digest of a": {"size: 7", "size: -1"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Errorf("%q is not in the file", change[0])
		}
		if _, err := lockfile.Parse("matrix.lock", []byte(text), nil); !errors.Is(err, lockfile.ErrFormat) || !strings.Contains(err.Error(), what) || !strings.HasPrefix(err.Error(), "matrix.lock: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", "[]", "schema: 1\ntargets: &a {x: *a}", "schema: 1\nschema: 1"} {
		if l, err := lockfile.Parse("x", []byte(text), nil); err == nil {
			t.Errorf("%q: %+v", text, l)
		}
	}
}

// TestEdited: a section that lacks any of its lines, or has another version, address or name of a package, is refused; one
// without a digest is read as what an earlier driver-build wrote.
func TestEdited(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, &lockfile.Lock{Targets: map[string]*lockfile.Target{full().Name(): full()}}))
	lines := strings.SplitAfter(good, "\n")
	for n, line := range lines {
		edits := []string{"", strings.Replace(line, "2.0-3", "2.0-4", 1), strings.Replace(line, "example.com", "example.net", 1), strings.Replace(line, "gcc", "gcd", 1)}
		for _, edit := range edits {
			text := strings.Join(lines[:n], "") + edit + strings.Join(lines[n+1:], "")
			l, err := lockfile.Parse("matrix.lock", []byte(text), nil)
			switch comment, digest := strings.HasPrefix(line, "#"), strings.HasPrefix(line, "    digest:"); {
			case edit == line || comment:
			case digest && (err != nil || !l.Old):
				t.Errorf("without its digest: %v", err)
			case !digest && err == nil && len(l.Targets) > 0:
				t.Errorf("%q as %q is accepted", line, edit)
			}
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "matrix.lock")
	assert.ErrorIs(t, assert.Err(lockfile.Read(file, nil)), fs.ErrNotExist)
	l := &lockfile.Lock{Targets: map[string]*lockfile.Target{full().Name(): full()}}
	for range 2 {
		require.NoError(t, l.Write(t.Context(), file))
	}
	got, err := lockfile.Read(file, nil)
	if err != nil || cmp.Diff(l, got) != "" {
		t.Error(err)
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	assert.Errorf(t, l.Write(t.Context(), filepath.Join(file, "x")), "written below a file")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	old, now := full(), full()
	if c := lockfile.Compare(old, now); len(c) != 0 {
		t.Errorf("%v", c)
	}
	now.Asked.Base, now.Asked.Archive = "debian:13", nil
	now.Asked.Components, now.Asked.Image = []string{"main"}, append([]string{"make"}, now.Asked.Image...)
	delete(now.Asked.Headers, "4.18")
	now.Asked.Repositories = []matrix.Repository{now.Asked.Repositories[0], {BaseURLs: []string{"https://y.example.com/"}}}
	now.Asked.OnlyThese = false
	now.Pins.Base.Digest = "sha256:" + strings.Repeat("0", 64)
	now.Pins.Packages = []distros.Package{pkg("gcc", "4:13-1"), pkg("make", "4")}
	now.Pins.Driver[0].SHA256 = strings.Repeat("0", 64)
	var got []string
	for _, c := range lockfile.Compare(old, now) {
		got = append(got, c.String())
	}
	want := []string{
		"base image: debian:12 -> debian:13", "component: gone: contrib", "component: new: main",
		"repository: gone: https://x.example.com/$basearch/", "repository: new: https://y.example.com/", "repositories of the base: left out -> used", "wanted in the image: new: make", "kernel: gone: 4.18",
		"driver archive: gone: https://us.example.com/x.run sha256:" + sum256 + ", 3 bytes",
		"base docker.io/library/debian:12: sha256:" + sum256 + " -> sha256:" + strings.Repeat("0", 64),
		"package gcc: 4:12.2.0-3 -> 4:13-1", "package make: new: 4", "package yes: gone: 1:5.14.0-427.13.1.el9_4",
		"driver libcuda1 535: sha256:" + sum256 + " -> sha256:" + strings.Repeat("0", 64),
	}
	assert.Same(t, want, got)
}

func TestWithMirror(t *testing.T) {
	t.Parallel()
	one := full()
	one.Pins.Packages = []distros.Package{pkg("gcc", "1")}
	for _, c := range []struct{ mirror, asked, want string }{
		{"", "", "http://mirror.example.com/debian/pool/gcc_1.deb"},
		{"mirror.example.com/debian=http://me:pw@inside/d", "x", "http://me:pw@inside/d/pool/gcc_1.deb"},
		{"mirror.example.com/deb=http://inside/d", "x", "http://mirror.example.com/debian/pool/gcc_1.deb"},
		{"http://inside:81", "x", "http://inside:81/debian/pool/gcc_1.deb"},
		{"deb.example.com/debian=http://me:pw@mirror.example.com/debian", one.Asked.Mirror, "http://me:pw@mirror.example.com/debian/pool/gcc_1.deb"},
	} {
		p, err := one.WithMirror(c.mirror, recipe.Request{Mirror: c.asked})
		if err != nil || p.Packages[0].URL != c.want {
			t.Errorf("%s: %v, %v", c.mirror, p.Packages, err)
		}
	}
	p, err := one.WithMirror("mirror.example.com=http://inside", recipe.Request{})
	if err != nil || !strings.HasPrefix(p.Headers["5.14.0-427.el9.x86_64+rt"][0].URL, "http://inside/debian") || strings.Contains(one.Pins.Packages[0].URL, "inside") {
		t.Errorf("%v, %v", p.Headers, err)
	}
	var mismatch *lockfile.MismatchError
	if _, err := one.WithMirror("http://inside/path", recipe.Request{Mirror: "http://inside/path"}); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "HOST/PATH=URL") {
		t.Error(err)
	}
}

func TestNewRefusesLocalFiles(t *testing.T) {
	t.Parallel()
	p := pkg("gcc", "1")
	p.URL = "file:///srv/gcc.deb"
	if _, err := lockfile.New("x", matrix.Target{Arch: "amd64"}, recipe.Pins{Packages: []distros.Package{p}}, recipe.Request{}, nil); err == nil || !strings.Contains(err.Error(), "other machines do not have") {
		t.Error(err)
	}
}

// BenchmarkParse measures a lock of 300 images with 90 packages each.
func BenchmarkParse(b *testing.B) {
	l := &lockfile.Lock{Targets: map[string]*lockfile.Target{}}
	for i := range 300 {
		one := full()
		one.Tag = fmt.Sprintf("%d-rocky9", i)
		for n := range 90 {
			one.Pins.Packages = append(one.Pins.Packages, pkg(fmt.Sprintf("package-%d", n), "1.2.3-4"))
		}
		l.Targets[one.Name()] = one
	}
	data := encoded(b, l)
	for name, want := range map[string]func(string) bool{"all": nil, "one": func(name string) bool { return name == "7-rocky9/amd64" }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				require.Value(lockfile.Parse("x", data, want))(b)
			}
		})
	}
}

// FuzzParse: whatever is accepted can be written, and is the same when it is read again.
// TestLater: a lock of a later format is not a damaged one, which driver-build lock --update would replace.
func TestLater(t *testing.T) {
	t.Parallel()
	_, err := lockfile.Parse("matrix.lock", []byte("# of a later driver-build\nschema: 2\nnew-field: {}\ntargets: {}\n"), nil)
	if !errors.Is(err, lockfile.ErrLater) || errors.Is(err, lockfile.ErrFormat) || !strings.Contains(err.Error(), "schema is 2, this program knows 1") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encoded(f, &lockfile.Lock{Targets: map[string]*lockfile.Target{full().Name(): full()}}))
	f.Add([]byte("schema: 1\ntargets: {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := lockfile.Parse("x", data, nil)
		if err != nil {
			return
		}
		text := encoded(t, l)
		again, err := lockfile.Parse("x", text, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		assert.Equalf(t, string(text), string(encoded(t, again)), "written differently: %s", text)
	})
}
