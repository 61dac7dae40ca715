package lockfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
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
	return distros.Package{Name: name, Version: version, Arch: "amd64", URL: "http://mirror.example.com/debian/pool/" + name + "_" +
		version + ".deb", SHA256: sum256, Size: 7}
}

// full has everything that an entry can have, in awkward words.
func full() *lockfile.Entry {
	rpm := distros.Package{
		Name: "yes", Version: "1:5.14.0-427.13.1.el9_4", Arch: "noarch", URL: "https://mirror.example.com/a%2Bb/x.rpm?sig=1&x=\"y\"", SHA512: sum512,
		Size: 1 << 40, Replaces: "1.0", Keys: []string{"ABCD", "0123"},
	}
	d, err := distros.Lookup("rocky9")
	if err != nil {
		panic(err)
	}
	return &lockfile.Entry{
		Kernels: []string{"6.12:latest cloud-amd64", "all"},
		Recipe: &recipe.Recipe{
			Schema: recipe.Version, System: "rocky9", Distro: d, Driver: "535.261.03", Branch: "R535", Arch: "amd64", Tag: "535.261.03-rocky9", Profile: recipe.Full,
			Links: d.Links(), LibDir: d.LibDir("amd64"), LibDir32: d.LibDir32("amd64"), Compression: recipe.Gzip, Flavours: []string{"open"}, PrecompiledFlavours: []string{"open"},
			Asked: recipe.Request{
				Base: "debian:12", Mirror: "deb.example.com/debian=http://mirror.example.com/debian", Components: []string{"contrib"},
				Wants: recipe.Wants{Image: []string{"(a if b else c)", "# no comment", "<null>", "12", "- x", "gcc"},
					Compiler: []string{"kernel-devel-uname-r = 5.14.0"},
					Headers:  map[string][]string{"5.14.0-427.el9.x86_64+rt": {"x = 1"}, "4.18": {"y"}}},
			},
			Repositories: []matrix.Repository{{URIs: []string{"https://x.example.com/a b"}, Suites: []string{"bookworm"},
				Components: []string{"main"}}, {BaseURLs: []string{"https://x.example.com/$basearch/"}}},
			OnlyThese: true,
			Source:    recipe.Source{Runfile: &fetch.File{URL: "https://us.example.com/x.run", SHA256: sum256, Size: 3}},
			Base:      recipe.Base{Name: "docker.io/library/debian:12", Digest: "sha256:" + sum256},
			Packages:  []distros.Package{pkg("gcc", "4:12.2.0-3"), rpm}, Compiler: []distros.Package{rpm},
			Kernels: []recipe.Kernel{{Release: "5.14.0-427.el9.x86_64+rt", Headers: []distros.Package{pkg("h", "~1")}}, {Release: "4.18",
				Headers: nil}},
		},
	}
}

func lockOf(all ...*lockfile.Entry) *lockfile.Lock {
	l := &lockfile.Lock{Schema: lockfile.Schema, Images: map[string]*lockfile.Entry{}}
	for _, e := range all {
		l.Images[e.Name()] = e
	}
	return l
}

func encoded(t testing.TB, l *lockfile.Lock) []byte {
	t.Helper()
	return require.Value(l.Encode())(t)
}

// noDistro leaves out what has no fields to compare.
var noDistro = cmpopts.IgnoreFields(recipe.Recipe{}, "Distro")

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	other := full()
	other.Recipe.Arch = "arm64"
	other.Recipe.LibDir, other.Recipe.LibDir32 = other.Recipe.Distro.LibDir("arm64"), other.Recipe.Distro.LibDir32("arm64")
	l := lockOf(other, full())
	data := encoded(t, l)
	back := require.Value(lockfile.Parse("matrix.lock", data, nil))(t)
	assert.Equal(t, "", cmp.Diff(l, back, noDistro))
	assert.Equalf(t, string(data), string(encoded(t, back)), "the bytes differ")
	goldentest.Compare(t, "testdata/matrix.lock", string(data))
	for line := range strings.Lines(string(data)) {
		if strings.Count(line, `"sha256":`) > 1 {
			t.Errorf("two packages on a line: %s", line)
		}
	}
	if s := string(data); strings.Index(s, "/amd64") > strings.Index(s, "/arm64") {
		t.Error("not sorted")
	}
	for _, want := range []string{"535.261.03-rocky9/arm64", "none"} {
		some, err := lockfile.Parse("x", data, func(name string) bool { return name == want })
		if _, ok := some.Images[want]; err != nil || ok != (want != "none") || len(some.Images) > 1 || ok && cmp.Diff(l.Images[want],
			some.Images[want], noDistro) != "" {
			t.Errorf("%s: %v, %v", want, some.Names(), err)
		}
	}
	empty, err := lockfile.Parse("x", encoded(t, &lockfile.Lock{}), nil)
	if err != nil || len(empty.Images) != 0 {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, lockOf(full())))
	for what, change := range map[string][2]string{
		"its schema is 0":         {`"schema": 2`, `"schema": 0`},
		"no file with an address": {"https://mirror.example.com/a%2Bb", "file:///etc/a%2Bb"},
		"unknown field":           {`"profile":`, `"colour": "red", "profile":`},
		"follows its end":         {"\n}\n", "\n}\n{}\n"},
		"it was changed":          {`"size":7`, `"size":8`},
		"in a form that this":     {good, "# What\nschema: 1\ntargets:\n"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Errorf("%q is not in the file", change[0])
		}
		_, err := lockfile.Parse("matrix.lock", []byte(text), nil)
		if !errors.Is(err, lockfile.ErrFormat) || !strings.Contains(err.Error(), what) || !strings.HasPrefix(err.Error(), "matrix.lock: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", "[]", `{"schema": 2, "images": {"a/b": null}}`, `{"schema": 2, "images": {"a/b": {}}}`} {
		if l, err := lockfile.Parse("x", []byte(text), nil); err == nil {
			t.Errorf("%q: %+v", text, l)
		}
	}
}

// TestEdited: an entry that lacks any of its lines, or has another version, address or name of a package, is refused.
func TestEdited(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(string(encoded(t, lockOf(full()))), "\n")
	for n, line := range lines {
		for _, edit := range []string{"", strings.Replace(line, "2.0-3", "2.0-4", 1), strings.Replace(line, "example.com", "example.net", 1),
			strings.Replace(line, "gcc", "gcd", 1)} {
			text := strings.Join(lines[:n], "") + edit + strings.Join(lines[n+1:], "")
			if l, err := lockfile.Parse("matrix.lock", []byte(text), nil); edit != line && err == nil && len(l.Images) > 0 {
				// What follows from the system is made anew, and false is what is not there.
				if !strings.Contains(line, `"libDir`) && !strings.Contains(line, `"links"`) && !strings.Contains(line, "false") {
					t.Errorf("%q as %q is accepted", line, edit)
				}
			}
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	old, now := full(), full()
	if c := lockfile.Compare(old, now); len(c) != 0 {
		t.Errorf("%v", c)
	}
	asked := &now.Recipe.Asked
	asked.Base, now.Recipe.Source.Runfile = "debian:13", nil
	asked.Components, asked.Image = []string{"main"}, append([]string{"make"}, asked.Image...)
	now.Recipe.Kernels = now.Recipe.Kernels[:1]
	now.Recipe.Repositories = []matrix.Repository{now.Recipe.Repositories[0], {BaseURLs: []string{"https://y.example.com/"}}}
	now.Recipe.OnlyThese = false
	now.Recipe.Base.Digest = "sha256:" + strings.Repeat("0", 64)
	now.Recipe.Packages = []distros.Package{pkg("gcc", "4:13-1"), pkg("make", "4")}
	now.Recipe.Kernels[0].Headers[0].SHA256 = strings.Repeat("0", 64)
	var got []string
	for _, c := range lockfile.Compare(old, now) {
		got = append(got, c.String())
	}
	want := []string{
		"base image: debian:12 -> debian:13", "component: gone: contrib", "component: new: main",
		"repository: gone: https://x.example.com/$basearch/", "repository: new: https://y.example.com/", "repositories of the base: left out -> used", "wanted in the image: new: make", "kernel: gone: 4.18",
		"driver archive: gone: sha256:" + sum256,
		"base docker.io/library/debian:12: sha256:" + sum256 + " -> sha256:" + strings.Repeat("0", 64),
		"package gcc: 4:12.2.0-3 -> 4:13-1", "package make: new: 4", "package yes: gone: 1:5.14.0-427.13.1.el9_4",
		"headers of 5.14.0-427.el9.x86_64+rt h ~1: sha256:" + sum256 + " -> sha256:" + strings.Repeat("0", 64),
	}
	assert.Same(t, want, got)
}

func TestWithMirror(t *testing.T) {
	t.Parallel()
	one := full()
	one.Recipe.Packages = []distros.Package{pkg("gcc", "1")}
	for _, c := range []struct{ mirror, asked, want string }{
		{"", "", "http://mirror.example.com/debian/pool/gcc_1.deb"},
		{"mirror.example.com/debian=http://me:pw@inside/d", "x", "http://me:pw@inside/d/pool/gcc_1.deb"},
		{"mirror.example.com/deb=http://inside/d", "x", "http://mirror.example.com/debian/pool/gcc_1.deb"},
		{"http://inside:81", "x", "http://inside:81/debian/pool/gcc_1.deb"},
		{"deb.example.com/debian=http://me:pw@mirror.example.com/debian", one.Recipe.Asked.Mirror,
			"http://me:pw@mirror.example.com/debian/pool/gcc_1.deb"},
	} {
		p, err := one.Pins(c.mirror, recipe.Request{Mirror: c.asked})
		if err != nil || p.Packages[0].URL != c.want {
			t.Errorf("%s: %v, %v", c.mirror, p.Packages, err)
		}
	}
	p, err := one.Pins("mirror.example.com=http://inside", recipe.Request{})
	if err != nil || !strings.HasPrefix(p.Headers["5.14.0-427.el9.x86_64+rt"][0].URL,
		"http://inside/debian") || strings.Contains(one.Recipe.Packages[0].URL, "inside") {
		t.Errorf("%v, %v", p.Headers, err)
	}
	var mismatch *lockfile.MismatchError
	if _, err := one.Pins("http://inside/path", recipe.Request{Mirror: "http://inside/path"}); !errors.As(err,
		&mismatch) || !strings.Contains(err.Error(), "HOST/PATH=URL") {
		t.Error(err)
	}
}

func TestNewRefusesLocalFiles(t *testing.T) {
	t.Parallel()
	r := full().Recipe
	r.Packages[0].URL = "file:///srv/gcc.deb"
	_, err := lockfile.New(r, nil)
	assert.ErrorContains(t, err, "other machines do not have")
}

// FuzzParse: whatever is accepted can be written, and is the same when it is read again.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, lockOf(full())))
	f.Add([]byte(`{"schema": 2, "images": {}}`))
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
