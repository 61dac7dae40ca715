package apt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*archive, *Options)
	}{
		{"all forms", func(*archive, *Options) {}},
		{"gz", func(a *archive, _ *Options) { a.Endings = []string{"", ".gz"} }},
		{"xz", func(a *archive, _ *Options) { a.Endings = []string{"", ".xz"} }},
		{"zst", func(a *archive, _ *Options) { a.Endings = []string{"", ".zst"} }},
		{"xz without the plain size", func(a *archive, _ *Options) { a.Endings = []string{".xz", ".gz"} }},
		{"plain", func(a *archive, _ *Options) { a.Endings = []string{""} }},
		{"by hash", func(a *archive, _ *Options) { a.ByHash = true }},
		{"by hash announced, not there", func(a *archive, _ *Options) { a.ByHash, a.Hidden = true, true }},
		{"by hash switched off", func(a *archive, o *Options) { a.ByHash, a.Hidden, o.Sources[0].NoByHash = true, true, true }},
		{"expired, ignored by the source", func(a *archive, o *Options) {
			a.Head += "Valid-Until: Sat, 27 Jun 2026 10:00:00 UTC\n"
			o.Sources[0].NoValidUntil = true
		}},
		{"expired, allowed", func(a *archive, o *Options) {
			a.Head += "Valid-Until: Sat, 27 Jun 2026 10:00:00 UTC\n"
			o.AllowExpired = true
		}},
		{"valid", func(a *archive, _ *Options) { a.Head += "Valid-Until: Sat, 4 Jul 2026 10:00:00 +0000\n" }},
		{"by suite", func(a *archive, o *Options) {
			o.Sources[0].Suites = []string{"stable"}
			a.Files["/debian/dists/stable/InRelease"] = nil
		}},
		{"old name of security components", func(a *archive, _ *Options) {
			a.Head = strings.Replace(a.Head, "Components: main contrib", "Components: updates/main updates/contrib", 1)
		}},
		{"architecture in the URI", func(_ *archive, o *Options) { o.Sources[0].Architectures = []string{"amd64", "arm64"} }},
		{"two sources of one suite", func(_ *archive, o *Options) { o.Sources = append(o.Sources, o.Sources[0]) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			o := a.options(t)
			tt.change(a, &o)
			a.publish(t, keys().ed)
			if _, ok := a.Files["/debian/dists/stable/InRelease"]; ok {
				for name, data := range a.Files {
					a.Files[strings.Replace(name, "bookworm", "stable", 1)] = data
				}
			}
			x := require.Value(openIndex(t.Context(), o))(t)
			got, err := x.Resolve(nil, []string{"a"})
			if err != nil || short(got) != "a 1, b 1" || x.Len() != 2 {
				t.Fatalf("Resolve = %q, %v, of %d packages", short(got), err, x.Len())
			}
			want := Package{Package: distros.Package{
				Name: "b", Version: "1", Arch: "amd64", URL: a.URL + "/debian/pool/b_1_amd64.deb", Size: 10,
				SHA256: strings.Repeat("0", 63) + "1",
			}}
			got[1].Paragraph, got[1].Origin = want.Paragraph, ""
			if diff := cmp.Diff(want, got[1], cmp.Comparer(func(a, b dpkg.Paragraph) bool { return a.String() == b.String() })); diff != "" {
				t.Errorf("package (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	k := keys()
	const in = "/debian/dists/bookworm/InRelease"
	for _, tt := range []struct {
		name    string
		signers []*openpgp.Entity
		change  func(*archive, *Options) // after signing
		want    error
		say     string
	}{
		{"rsa", []*openpgp.Entity{k.rsa}, func(_ *archive, o *Options) { o.Sources[0].Key += "\n" + string(public(t, true, k.rsa)) }, nil, ""},
		{"stranger", []*openpgp.Entity{k.stranger}, nil, pgp.ErrSignature, "is not trusted here"},
		{"expired key", []*openpgp.Entity{k.expired}, func(_ *archive, o *Options) { o.Sources[0].Key += "\n" + string(public(t, true, k.expired)) }, pgp.ErrExpired, "expired"},
		{"expired key, allowed", []*openpgp.Entity{k.expired}, func(_ *archive, o *Options) {
			o.Sources[0].Key, o.AllowExpired = string(public(t, true, k.expired)), true
		}, nil, ""},
		{"empty", []*openpgp.Entity{k.ed}, func(a *archive, _ *Options) { a.Files[in] = nil }, pgp.ErrSignature, ""},
		{"trusted=yes needs none", []*openpgp.Entity{k.stranger}, func(_ *archive, o *Options) { o.Sources[0].Trusted = true }, nil, ""},
		{"no key at all", []*openpgp.Entity{k.ed}, func(_ *archive, o *Options) { o.Sources[0].Key = "" }, pgp.ErrSignature, "no key is trusted"},
		{"future", []*openpgp.Entity{k.ed}, func(_ *archive, o *Options) { o.Now = testNow.AddDate(-1, 0, 0) }, pgp.ErrExpired, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			o := a.options(t)
			a.publish(t, tt.signers...)
			if tt.change != nil {
				tt.change(a, &o)
			}
			_, err := openIndex(t.Context(), o)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.say) {
				t.Errorf("Open: %v; want %v with %q", err, tt.want, tt.say)
			}
		})
	}
}

func TestDetachedSignature(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	o := a.options(t)
	const dir = "/debian/dists/bookworm"
	text := a.release(t, dir)
	var sig bytes.Buffer
	require.NoError(t, openpgp.DetachSign(&sig, keys().ed, strings.NewReader(text), repotest.At(testNow)))
	a.Files[dir+"/Release"], a.Files[dir+"/Release.gpg"] = []byte(text), sig.Bytes()
	require.Value(openIndex(t.Context(), o))(t)
	a.Files[dir+"/Release"] = []byte(text + "\n")
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), pgp.ErrSignature, "changed text")
	delete(a.Files, dir+"/Release.gpg")
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), fetch.ErrUnreachable, "no signature")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const gz = "/debian/dists/bookworm/main/binary-amd64/Packages.gz"
	for _, tt := range []struct {
		name          string
		before, after func(*archive, *Options) // signing
		want          error
		say           string
	}{
		{"past its validity", func(a *archive, _ *Options) { a.Head += "Valid-Until: Sat, 27 Jun 2026 10:00:00 UTC\n" }, nil, pgp.ErrExpired, "Valid-Until"},
		{"from the future", func(a *archive, _ *Options) { a.Head = strings.Replace(a.Head, "20 Jun 2026", "20 Jul 2026", 1) }, nil, distros.ErrIndex, "clock"},
		{"another suite", func(a *archive, _ *Options) { a.Head = strings.Replace(a.Head, "bookworm", "bullseye", 1) }, nil, distros.ErrIndex, "bullseye"},
		{"another suite, with a slash in front", nil, func(a *archive, o *Options) {
			o.Sources[0].Suites = []string{"/bullseye"}
			a.Files["/debian/dists//bullseye/InRelease"] = a.Files["/debian/dists/bookworm/InRelease"]
		}, distros.ErrIndex, "bullseye"},
		{"lying index", nil, func(a *archive, _ *Options) {
			a.Files[gz] = bytes.Repeat([]byte{1}, len(a.Files[gz]))
		}, distros.ErrIndex, "Packages"},
		{"short index", nil, func(a *archive, _ *Options) { a.Files[gz] = a.Files[gz][:20] }, distros.ErrIndex, "Packages"},
		{"weak digests only", func(a *archive, _ *Options) { a.packages = nil }, nil, distros.ErrIndex, "lists no index"},
		{"garbage with the right digest", func(a *archive, _ *Options) { a.raw = "hello\n" }, nil, distros.ErrIndex, "malformed"},
		{"a package without a name", func(a *archive, _ *Options) { a.raw = "Version: 1\n" }, nil, distros.ErrIndex, "without a name"},
		{"listed without this architecture", func(a *archive, _ *Options) { a.packages = map[string]string{"main/binary-arm64": "a 1"} }, nil, distros.ErrIndex, "lists no index"},
		{"unpacks to more than listed", func(a *archive, _ *Options) { a.Plus = -1 }, nil, distros.ErrIndex, "more bytes"},
		{"component of the source", func(_ *archive, o *Options) { o.Sources[0].Components = []string{"main", "universe"} }, nil, nil, `component "universe" does not exist in`},
		{"component of the options", func(_ *archive, o *Options) { o.Components = []string{"non-free"} }, nil, nil, "it has contrib, main"},
		{"no source", func(_ *archive, o *Options) { o.Sources = []Source{} }, nil, distros.ErrSources, "none is configured"},
		{"no source for the architecture", func(_ *archive, o *Options) { o.Sources[0].Architectures = []string{"arm64"} }, nil, distros.ErrSources, "amd64"},
		{"gone", nil, func(a *archive, _ *Options) { clear(a.Files) }, fetch.ErrUnreachable, "404"},
		{"index gone", nil, func(a *archive, _ *Options) {
			for name := range a.Files {
				if strings.Contains(name, "Packages") {
					delete(a.Files, name)
				}
			}
		}, fetch.ErrUnreachable, "Packages"},
		{"no server", nil, func(_ *archive, o *Options) { o.Sources[0].URIs = []string{"http://127.0.0.1:1"} }, fetch.ErrUnreachable, "127.0.0.1:1"},
		{"offline", nil, func(_ *archive, o *Options) { o.Fetch.Offline = true }, fetch.ErrOffline, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			o := a.options(t)
			a.Endings = []string{"", ".gz"}
			if tt.before != nil {
				tt.before(a, &o)
			}
			a.publish(t, keys().ed)
			if tt.after != nil {
				tt.after(a, &o)
			}
			_, err := openIndex(t.Context(), o)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("Open: %v; want %v with %q", err, tt.want, tt.say)
			}
		})
	}
}

func TestComponentsAreAdded(t *testing.T) {
	t.Parallel()
	a, b := newArchive(t), newArchive(t)
	b.Head = strings.Replace(b.Head, "main contrib", "main", 1)
	a.publish(t, keys().ed)
	b.publish(t, keys().ed)
	o := a.options(t)
	o.Sources = append(o.Sources, b.options(t).Sources...)
	o.Components = []string{"contrib"}
	x := require.Value(openIndex(t.Context(), o))(t)
	got, err := x.Resolve(nil, []string{"c"})
	if err != nil || short(got) != "a 1, b 1, c 1" {
		t.Errorf("Resolve = %q, %v", short(got), err)
	}
}

func TestFlatAndAll(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.Head = "Date: Sat, 20 Jun 2026 10:00:00 UTC\n"
	a.packages = map[string]string{"": "f 1"}
	a.Files["/flat/InRelease"] = repotest.Clearsigned(t, a.release(t, "/flat"), testNow, keys().ed)
	b := newArchive(t)
	b.Head = strings.Replace(b.Head, "No-Support-for-Architecture-all: Packages\n", "", 1)
	b.packages["main/binary-all"] = "d 1 all; Depends: f"
	b.publish(t, keys().ed)
	o := b.options(t)
	for _, suite := range []string{"/", "./"} {
		flat := a.options(t).Sources[0]
		flat.URIs, flat.Suites, flat.Components = []string{a.URL + "/flat"}, []string{suite}, nil
		p := o
		p.Sources = append([]Source{flat}, o.Sources...)
		x := require.Value(openIndex(t.Context(), p))(t)
		got, err := x.Resolve(nil, []string{"d"})
		if err != nil || short(got) != "d 1, f 1" || got[1].URL != a.URL+"/flat/pool/f_1_amd64.deb" {
			t.Errorf("Resolve = %+v, %v", got, err)
		}
	}
}

func TestOtherArchitectureIsNoted(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.Head = strings.Replace(a.Head, "all amd64 arm64", "arm64", 1)
	a.packages = map[string]string{"main/binary-arm64": "a 1 arm64"}
	a.publish(t, keys().ed)
	x, err := openIndex(t.Context(), a.options(t))
	if err != nil || len(x.Notes()) != 1 || !strings.Contains(x.Notes()[0], "nothing for amd64") {
		t.Errorf("notes %q, error %v", x.Notes(), err)
	}
}

func TestDigestAndOffline(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.publish(t, keys().ed)
	o := a.options(t)
	digest := func(o Options) string {
		t.Helper()
		r := require.Value(OpenReleases(t.Context(), o))(t)
		return r.Digest()
	}
	require.Value(openIndex(t.Context(), o))(t)
	first := digest(o)
	o.Now = o.Now.Add(time.Hour)
	offline := o
	offline.Fetch = &fetch.Client{Store: o.Fetch.Store, Offline: true}
	if _, err := openIndex(t.Context(), offline); err != nil {
		t.Errorf("offline, after it was read once: %v", err)
	}
	more := o
	more.Components = []string{"contrib"}
	a2 := digest(more)
	if first != digest(o) || digest(offline) != digest(o) || a2 == digest(o) {
		t.Errorf("digests: %s, again %s, offline %s, with a component more %s", first, digest(o), digest(offline), a2)
	}
	a.Lock()
	a.Head += "Version: 2\n"
	a.publish(t, keys().ed)
	a.Unlock()
	if digest(o) == first {
		t.Error("the digest does not follow the Release file")
	}
}

// A mirror whose servers are not all of the same day answers in turns: the newest Release file that was verified
// stays, also if the server has one in the other form only.
func TestOlderReleaseIsRefused(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	o := a.options(t)
	publish := func(packages, date string, by *openpgp.Entity, detached bool) {
		const dir = "/debian/dists/bookworm"
		a.packages = map[string]string{"main/binary-amd64": packages}
		a.Head = strings.Replace(bookworm, "20 Jun 2026", date, 1)
		a.publish(t, by)
		if detached {
			text := a.release(t, dir)
			a.Files[dir+"/Release"] = []byte(text)
			a.Files[dir+"/Release.gpg"] = repotest.Detached(t, text, testNow.AddDate(0, 0, -10), by)
			delete(a.Files, dir+"/InRelease")
		}
	}
	for i, c := range []struct {
		version, date string
		by            *openpgp.Entity
		detached      bool
		want          string // version that is resolved, "" for an error
		notes         int
	}{
		{"2", "20 Jun 2026", keys().ed, false, "2", 0},
		{"1", "19 Jun 2026", keys().ed, false, "2", 1},
		{"1", "19 Jun 2026", keys().ed, false, "2", 1},
		{"2", "20 Jun 2026", keys().ed, false, "2", 0},
		{"3", "21 Jun 2026", keys().ed, false, "3", 0},
		{"9", "22 Jun 2026", keys().stranger, false, "", 0},
		{"1", "19 Jun 2026", keys().ed, false, "3", 1}, // what a stranger signed does not count
		{"1", "19 Jun 2026", keys().ed, true, "3", 1},
		{"4", "22 Jun 2026", keys().ed, true, "4", 0},
		{"1", "19 Jun 2026", keys().ed, true, "4", 1},
		{"9", "23 Jun 2026", keys().stranger, true, "", 0},
		{"1", "19 Jun 2026", keys().ed, false, "4", 1},
	} {
		a.Lock()
		publish("a "+c.version, c.date, c.by, c.detached)
		a.Unlock()
		x, err := openIndex(t.Context(), o)
		if c.want == "" {
			assert.ErrorIsf(t, err, pgp.ErrSignature, "%d", i)
			continue
		}
		require.NoError(t, err)
		got := require.Value(x.Resolve(nil, []string{"a"}))(t)
		assert.Equalf(t, "a "+c.want, short(got), "%d", i)
		assert.Equalf(t, c.notes, len(x.Notes()), "%d: notes %q", i, x.Notes())
	}
	a.Lock()
	publish("a 1", "19 Jun 2026", keys().ed, false)
	a.Unlock()
	o.AllowRollback = true
	got := require.Value(require.Value(openIndex(t.Context(), o))(t).Resolve(nil, []string{"a"}))(t)
	assert.Equal(t, "a 1", short(got))
}

// TestDamagedIndex: an index that the disk damaged after its download is named as that, and is downloaded again
// once it is removed.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.Endings = []string{".gz"}
	a.publish(t, keys().ed)
	o := a.options(t)
	require.Value(openIndex(t.Context(), o))(t)
	index := o.Fetch.Store.Path(fmt.Sprintf("%x", sha256.Sum256(a.Files["/debian/dists/bookworm/main/binary-amd64/Packages.gz"])))
	require.NoError(t, os.Remove(index))
	require.NoError(t, os.WriteFile(index, make([]byte, len(a.Files["/debian/dists/bookworm/main/binary-amd64/Packages.gz"])), 0o600))
	damage := require.ErrorAs[*fetch.MismatchError](t, assert.Err(openIndex(t.Context(), o)))
	assert.Equal(t, 1, require.Value(o.Fetch.Store.RemoveDamaged(damage.Want))(t))
	require.Value(openIndex(t.Context(), o))(t)
}

// One server of a mirror may have a Release file before another has its indexes.
func TestIndexIsLate(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.publish(t, keys().ed)
	var asked atomic.Int32
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "Packages") && asked.Add(1) <= 5 { // four forms: all of the first attempt, one of the second
			http.NotFound(w, r)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(mirror.Close)
	o := a.options(t)
	o.Sources[0].URIs = []string{mirror.URL + "/debian"}
	assert.Equal(t, 2, require.Value(openIndex(t.Context(), o))(t).Len())
}

func TestSourcesAndKeysOfTheBase(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.publish(t, keys().ed)
	k := keys()
	both := append(public(t, true, k.rsa), public(t, true, k.ed)...)
	fingerprint := strings.ToUpper(fmt.Sprintf("%x", k.ed.PrimaryKey.Fingerprint))
	line := func(options string) string { return "deb " + options + " " + a.URL + "/debian bookworm main\n" }
	for _, tt := range []struct {
		name, sources string
		files         map[string][]byte
		ok            bool
	}{
		{"trusted.gpg", line(""), map[string][]byte{"etc/apt/trusted.gpg": public(t, false, k.rsa, k.ed)}, true},
		{"trusted.gpg.d binary", line(""), map[string][]byte{"etc/apt/trusted.gpg.d/x.gpg": public(t, false, k.ed)}, true},
		{"trusted.gpg.d armoured, one file broken", line(""), map[string][]byte{"etc/apt/trusted.gpg.d/x.asc": both, "etc/apt/trusted.gpg.d/a.gpg": []byte("x")}, true},
		{"other endings do not count", line(""), map[string][]byte{"etc/apt/trusted.gpg.d/x.key": both}, false},
		{"signed-by", line("[signed-by=/k/x.asc]"), map[string][]byte{"k/x.asc": both}, true},
		{"signed-by beats trusted", line("[signed-by=/k/x.asc]"), map[string][]byte{"k/x.asc": public(t, true, k.rsa), "etc/apt/trusted.gpg": public(t, false, k.ed)}, false},
		{"signed-by found where distributions keep it", line("[signed-by=/k/x.gpg]"), map[string][]byte{"usr/share/keyrings/x.gpg": public(t, false, k.ed)}, true},
		{"signed-by missing", line("[signed-by=/k/x.gpg]"), nil, false},
		{"fingerprint", line("[signed-by=" + fingerprint + "]"), map[string][]byte{"etc/apt/trusted.gpg": public(t, false, k.rsa, k.ed)}, true},
		{"another fingerprint", line("[signed-by=" + strings.Repeat("A", 40) + "]"), map[string][]byte{"etc/apt/trusted.gpg": public(t, false, k.ed)}, false},
		{"keybox", line(""), map[string][]byte{"etc/apt/trusted.gpg": []byte("\x00\x00\x00\x20\x01\x01\x00\x02KBXf\x00\x00\x00\x00")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{"etc/apt/sources.list": {Data: []byte(tt.sources)}}
			for name, data := range tt.files {
				root[name] = &fstest.MapFile{Data: data}
			}
			o := a.options(t)
			o.Sources, o.Root = require.Value(ReadSources(root))(t), root
			_, err := openIndex(t.Context(), o)
			if tt.ok && err != nil || !tt.ok && !errors.Is(err, pgp.ErrSignature) {
				t.Errorf("Open: %v, want success %v", err, tt.ok)
			}
		})
	}
}

func TestMirror(t *testing.T) {
	t.Parallel()
	debian := []Source{{URIs: []string{"http://deb.example/debian"}}, {URIs: []string{"http://deb.example/debian-security/"}}}
	ubuntu := []Source{{URIs: []string{"http://archive.example/ubuntu/"}}, {URIs: []string{"http://security.example/ubuntu"}}}
	for _, tt := range []struct {
		sources []Source
		mirror  string
		want    string
	}{
		{debian, "", "http://deb.example/debian http://deb.example/debian-security/"},
		{debian, "http://m.example", "http://m.example/debian http://m.example/debian-security"},
		{debian, "http://m.example/pub/debian/", "http://m.example/pub/debian http://m.example/pub/debian-security"},
		{debian, "http://m.example/proxy", "http://m.example/proxy http://m.example/proxy"},
		{debian, "deb.example=file:///srv", "file:///srv/debian file:///srv/debian-security/"},
		{debian, "deb.example/debian-security=http://s.example/x http://m.example/y", "http://m.example/y http://s.example/x/"},
		{debian, "deb.example/debian=http://m.example/d", "http://m.example/d http://deb.example/debian-security/"},
		{debian, "http://deb.example/debian=http://m.example/d?a=b", "http://m.example/d?a=b http://deb.example/debian-security/"},
		{ubuntu, "https://m.example/ubuntu", "https://m.example/ubuntu https://m.example/ubuntu"},
		{ubuntu, "archive.example=http://a,security.example=http://b", "http://a/ubuntu/ http://b/ubuntu"},
		{ubuntu, "nobody.example=http://a", "error"},
		{ubuntu, "http://a http://b", "error"},
		{ubuntu, "nonsense", "error"},
	} {
		var got string
		m, err := distros.ParseMirror(tt.mirror)
		if err == nil {
			var out []Source
			out, err = WithMirror(tt.sources, m)
			for _, s := range out {
				got = strings.TrimSpace(got + " " + strings.Join(s.URIs, " "))
			}
		}
		if err != nil {
			got = "error"
			assert.ErrorIsf(t, err, distros.ErrSources, "WithMirror(%q)", tt.mirror)
		}
		assert.Samef(t, tt.want, got, "WithMirror(%q) (-want +got)", tt.mirror)
	}
}

// openIndex opens the repositories and loads their lists.
func openIndex(ctx context.Context, o Options) (*Index, error) {
	r, err := OpenReleases(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Load(ctx)
}
