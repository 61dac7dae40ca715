package rpm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

func basics() []repotest.RPM {
	return []repotest.RPM{
		{Name: "gcc", EVR: "11.4.1-3.el9", Requires: []string{"cpp = 11.4.1-3.el9", "rpmlib(PayloadIsZstd)", "/usr/bin/as"}, Files: []repotest.File{{Name: "usr/bin/gcc"}}},
		{Name: "gcc", EVR: "11.3.1-4.el9"},
		{Name: "cpp", EVR: "2:11.4.1-3.el9", Provides: []string{"cpp(x86-64) = 2:11.4.1"}, Obsoletes: []string{"old-cpp < 3"}, Conflicts: []string{"tcc", "(lcc unless tcc)"}},
		{Name: "cpp", EVR: "11.4.1-3.el9", Arch: "i686"},
		{Name: "data", Arch: "noarch", Requires: []string{"(gcc >= 11 if cpp)"}, AllFiles: []string{"/usr/share/data & more/x"}},
		{Name: "other", Arch: "aarch64"},
		{Name: "gcc", EVR: "11.4.1-3.el9", Arch: "src"},
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{".gz", ".xz", ".zst", ""} {
		for _, long := range []bool{false, true} {
			t.Run(fmt.Sprint(ending, long), func(t *testing.T) {
				t.Parallel()
				r := newRepository(t, basics()...)
				r.Ending, r.SHA512 = ending, long
				r.publish(t, testKeys().stranger, testKeys().good)
				x := require.Value(openIndex(t.Context(), r.options(t)))(t)
				if x.Len() != 5 || len(x.Notes()) != 0 {
					t.Errorf("Len, Notes = %d, %q", x.Len(), x.Notes())
				}
				checkBasics(t, x, r.url)
			})
		}
	}
}

func checkBasics(t *testing.T, x *Index, url string) {
	t.Helper()
	p, ok := x.Candidate("cpp")
	if !ok {
		t.Fatal("no candidate for cpp")
	}
	want := distros.Package{
		Name: "cpp", Version: "2:11.4.1-3.el9", Arch: "x86_64", URL: url + "/Packages/cpp-11.4.1-3.el9.x86_64.rpm",
		SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("cpp2:11.4.1-3.el9"))), Size: 1234,
	}
	assert.Samef(t, want, p.Package, "Candidate(cpp)")
	evr := rpmfile.EVR{Epoch: "2", Version: "11.4.1"}
	meta := rpmfile.Metadata{
		Name: "cpp", EVR: rpmfile.EVR{Epoch: "2", Version: "11.4.1", Release: "3.el9"}, Arch: "x86_64",
		Provides: []rpmfile.Relation{
			{Name: "cpp(x86-64)", Op: "=", EVR: evr}, {Name: "cpp", Op: "=", EVR: rpmfile.EVR{Epoch: "2", Version: "11.4.1", Release: "3.el9"}},
		},
		Conflicts: []rpmfile.Requirement{
			{Relation: rpmfile.Relation{Name: "tcc"}},
			{Operator: "unless", Parts: []rpmfile.Requirement{{Relation: rpmfile.Relation{Name: "lcc"}}, {Relation: rpmfile.Relation{Name: "tcc"}}}},
		},
		Obsoletes: []rpmfile.Relation{{Name: "old-cpp", Op: "<", EVR: rpmfile.EVR{Version: "3"}}},
	}
	assert.Samef(t, meta, p.Metadata, "Metadata of cpp")
	if p.Origin != "os" || p.Priority != 99 {
		t.Errorf("cpp = %+v", p)
	}
	data, _ := x.Candidate("data")
	if len(data.Metadata.Requires) != 1 || data.Metadata.Requires[0].String() != "(gcc >= 11 if cpp)" {
		t.Errorf("requires of data = %v", data.Metadata.Requires)
	}
	var versions []string
	for _, p := range append(x.Versions("gcc"), x.Versions("cpp")...) {
		versions = append(versions, p.String()+"."+p.Arch)
	}
	assert.Same(t, []string{"gcc 11.4.1-3.el9.x86_64", "gcc 11.3.1-4.el9.x86_64", "cpp 2:11.4.1-3.el9.x86_64", "cpp 11.4.1-3.el9.i686"}, versions)
	for want, names := range map[string]string{"/usr/bin/gcc": "gcc", "cpp(x86-64) = 2:11.4.1": "cpp", "cpp < 1": "", "cpp >= 11": "cpp cpp"} {
		req := require.Value(rpmfile.ParseRequirement(want))(t)
		var got []string
		for _, p := range x.WhatProvides(req.Relation) {
			got = append(got, p.Name)
		}
		assert.Equalf(t, names, strings.Join(got, " "), "WhatProvides(%s) = %q", want, got)
	}
	if again, _ := x.Candidate("cpp"); again != p {
		t.Error("a package is not the same pointer twice")
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	packages := basics()
	packages[1].AllFiles = []string{"/usr/bin/as", "/opt/x"}
	r := newRepository(t, packages...)
	r.publish(t, testKeys().good)
	x := require.Value(openIndex(t.Context(), r.options(t)))(t)
	const list = "/os/repodata/filelists.xml.gz"
	for _, c := range []struct {
		file, owner string
		requests    int
	}{{"/usr/bin/gcc", "gcc 11.4.1-3.el9", 0}, {"/opt/x", "gcc 11.3.1-4.el9", 1}, {"/usr/bin/as", "gcc 11.3.1-4.el9", 1}, {"/usr/share/data & more/x", "data 1-1", 1}, {"/nowhere", "", 1}} {
		got, err := x.Owners(t.Context(), c.file)
		name := ""
		if len(got) > 0 {
			name = got[0].String()
		}
		if err != nil || name != c.owner || r.Requests["GET "+list] != c.requests {
			t.Errorf("owners(%s) = %v, %v after %d requests; want %q after %d", c.file, got, err, r.Requests["GET "+list], c.owner, c.requests)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, assert.Err(x.Owners(ctx, "/another")), context.Canceled, "owners after cancel")
}

// TestRefused checks what is not accepted, and the error for each case.
func TestRefused(t *testing.T) {
	t.Parallel()
	k := testKeys()
	late := func(r *repository) {
		r.Files["/os/repodata/repomd.xml.asc"] = repotest.Detached(t, string(r.Files["/os/repodata/repomd.xml"]), testNow.AddDate(-2, -6, 0), k.expired)
	}
	flip := func(name string) func(*repository) {
		return func(r *repository) { r.Files["/os/repodata/"+name][30] ^= 1 }
	}
	for _, c := range []struct {
		name   string
		before func(*repository)
		after  func(*repository)
		option func(*Options)
		want   error
		text   string
	}{
		{name: "stranger", after: func(r *repository) {
			r.Files["/os/repodata/repomd.xml.asc"] = repotest.Detached(t, string(r.Files["/os/repodata/repomd.xml"]), testNow, k.stranger)
		}, want: pgp.ErrSignature, text: "not trusted here"},
		{name: "changed", after: flip("repomd.xml"), want: pgp.ErrSignature},
		{name: "unsigned", after: func(r *repository) { delete(r.Files, "/os/repodata/repomd.xml.asc") }, want: pgp.ErrSignature, text: "repo_gpgcheck=0"},
		{name: "no signature in it", after: func(r *repository) { r.Files["/os/repodata/repomd.xml.asc"] = []byte("hello") }, want: pgp.ErrSignature},
		{name: "expired key", option: func(o *Options) { o.Sources[0].Key = repotest.Public(t, k.expired) }, after: late, want: pgp.ErrExpired},
		{name: "expired key, allowed", option: func(o *Options) { o.Sources[0].Key, o.AllowExpired = repotest.Public(t, k.expired), true }, after: late},
		{name: "list changed", after: flip("primary.xml.gz"), want: distros.ErrIndex, text: "mirror in the middle of an update"},
		{name: "list gone", after: func(r *repository) { delete(r.Files, "/os/repodata/primary.xml.gz") }, want: fs.ErrNotExist},
		{name: "larger than said", before: func(r *repository) { r.Plus = -1 }, want: distros.ErrIndex, text: "more bytes"},
		{name: "larger than allowed", before: func(r *repository) { r.Plus = maxPrimary }, want: distros.ErrIndex, text: "more than"},
		{name: "weak digest", before: func(r *repository) {
			r.Mangle = func(s string) string { return strings.ReplaceAll(s, `"sha256"`, `"sha"`) }
		}, want: distros.ErrIndex, text: "does not count"},
		{name: "location climbs", before: func(r *repository) {
			r.Mangle = func(s string) string { return strings.Replace(s, `"repodata/primary`, `"../primary`, 1) }
		}, want: distros.ErrIndex, text: "above the root"},
		{name: "no primary", before: func(r *repository) { r.Omit = []string{"primary"} }, want: distros.ErrIndex, text: "no list primary"},
		{name: "not a repomd", before: func(r *repository) { r.Mangle = func(string) string { return "<html><body/></html>" } }, want: distros.ErrIndex},
		{name: "entities", before: func(r *repository) {
			r.Mangle = func(s string) string { return `<!DOCTYPE x [<!ENTITY a "aaaa">]>` + s }
		}, want: distros.ErrIndex, text: "document types"},
		{name: "empty package", before: func(r *repository) { r.Packages[0].Name = "" }, want: distros.ErrIndex},
		{name: "nothing vouches", option: func(o *Options) { o.Sources[0].Key, o.Sources[0].RepoGPGCheck = "", false }, want: distros.ErrSources, text: "gpgcheck=1"},
		{name: "no key", option: func(o *Options) {
			o.Sources[0].Key, o.Sources[0].RepoGPGCheck, o.Sources[0].GPGCheck = "", false, true
			o.Sources[0].GPGKeys = []string{"https://example.com/key"}
		}, want: distros.ErrSources, text: "is not fetched"},
		{name: "no key for repomd", option: func(o *Options) {
			o.Sources[0].Key = ""
			o.Sources[0].GPGKeys = []string{"file:///etc/pki/rpm-gpg/KEY"}
		}, want: pgp.ErrSignature, text: "does not exist in the base"},
		{name: "no such host", option: func(o *Options) { o.Sources[0].BaseURLs[0] = "http://127.0.0.1:1/os" }, want: fetch.ErrUnreachable},
		{name: "unknown variable", option: func(o *Options) { o.Sources[0].BaseURLs[0] += "/$releasever/x" }, want: distros.ErrSources, text: "$releasever stands for"},
		{name: "not a URL", option: func(o *Options) { o.Sources[0].BaseURLs[0] = "ftp://user:pass@example.com" }, want: distros.ErrSources, text: "ftp://example.com"},
		{name: "twice", option: func(o *Options) { o.Sources = append(o.Sources, o.Sources[0]) }, want: distros.ErrSources},
		{name: "none", option: func(o *Options) { o.Sources = []repoconf.Source{} }, want: distros.ErrSources},
		{name: "architecture", option: func(o *Options) { o.Arch = "amd64" }, want: distros.ErrSources},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, basics()...)
			if c.before != nil {
				c.before(r)
			}
			r.publish(t, k.good)
			if c.after != nil {
				c.after(r)
			}
			o := r.options(t)
			if c.option != nil {
				c.option(&o)
			}
			_, err := openIndex(t.Context(), o)
			if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("Open = %v; want %v with %q", err, c.want, c.text)
			}
			if err != nil && strings.Contains(err.Error(), "pass@") {
				t.Errorf("a password in %v", err)
			}
		})
	}
}

// TestSignedPackages checks that the packages must be signed if the index is not.
func TestSignedPackages(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	r.publish(t)
	o := r.options(t)
	k := testKeys()
	o.Root = testfile.FS(map[string]string{
		"etc/pki/rpm-gpg/GOOD": repotest.Public(t, k.good), "etc/pki/rpm-gpg/OTHER": repotest.Public(t, k.stranger), "etc/pki/rpm-gpg/note": "hello",
	})
	for _, c := range []struct {
		name   string
		source repoconf.Source
		extra  bool
		want   []string
	}{
		{"named", repoconf.Source{GPGCheck: true, GPGKeys: []string{"file:///etc/pki/rpm-gpg/GOOD"}}, false, []string{repotest.Fingerprint(k.good)}},
		{"path", repoconf.Source{GPGCheck: true, GPGKeys: []string{"https://example.com/x", "/etc/pki/rpm-gpg/GOOD"}}, false, []string{repotest.Fingerprint(k.good)}},
		{"all of the base", repoconf.Source{GPGCheck: true}, false, []string{repotest.Fingerprint(k.good), repotest.Fingerprint(k.stranger)}},
		{"of the matrix", repoconf.Source{GPGCheck: true, Key: repotest.Public(t, k.expired)}, false, []string{repotest.Fingerprint(k.expired)}},
		{"of the matrix alone", repoconf.Source{Key: repotest.Public(t, k.expired)}, false, []string{repotest.Fingerprint(k.expired)}},
		{"of the options", repoconf.Source{GPGCheck: true, GPGKeys: []string{"https://example.com/x"}}, true, []string{repotest.Fingerprint(k.expired)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := o
			s := c.source
			s.ID, s.BaseURLs = "os", []string{r.url}
			o.Sources = []repoconf.Source{s}
			if c.extra {
				o.Keyrings = [][]byte{[]byte(repotest.Public(t, k.expired))}
			}
			x := require.Value(openIndex(t.Context(), o))(t)
			slices.Sort(c.want)
			if p, _ := x.Candidate("gcc"); !slices.Equal(p.Keys, c.want) {
				t.Errorf("Keys = %q; want %q", p.Keys, c.want)
			}
		})
	}
}

func TestSkipUnavailable(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	unreachable := o.Sources[0]
	unreachable.ID, unreachable.BaseURLs = "gone", []string{"http://127.0.0.1:1/os"}
	o.Sources = append(o.Sources, unreachable)
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), fetch.ErrUnreachable, "Open")
	o.Sources[1].SkipUnavailable = true
	x, err := openIndex(t.Context(), o)
	if err != nil || len(x.Notes()) != 1 || !strings.Contains(x.Notes()[0], "gone") {
		t.Fatalf("Open = %v, %v; want a note", x, err)
	}
	o.Sources = o.Sources[1:]
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), fetch.ErrUnreachable, "Open(nothing left)")
	r.Files["/os/repodata/repomd.xml"] = []byte("<repomd/>")
	o = r.options(t)
	o.Sources[0].SkipUnavailable = true
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), pgp.ErrSignature, "Open(forged, skip)")
}

func TestOffline(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	require.Value(openIndex(t.Context(), o))(t)
	r.Files = map[string][]byte{}
	o.Fetch.Offline = true
	x := require.Value(openIndex(t.Context(), o))(t)
	checkBasics(t, x, r.url)
	assert.ErrorIsf(t, assert.Err(x.Owners(t.Context(), "/opt/x")), fetch.ErrOffline, "owners offline")
}

func TestRollback(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	o := r.options(t)
	for i, c := range []struct {
		revision  string
		timestamp int64
		allow     bool
		want      error
	}{
		{"100", 1000, false, nil}, {"100", 1000, false, nil}, {"99", 999, false, ErrRollback}, {"99", 999, true, nil}, {"99", 999, false, ErrRollback},
		{"100", 999, false, ErrRollback}, {"101", 1001, false, nil}, {"5", 2000, false, nil}, {"9.4", 999, false, ErrRollback}, {"9.4", 3000, false, nil},
	} {
		r.Timestamp = c.timestamp
		r.Mangle = func(s string) string {
			return strings.Replace(s, "<revision>1750000000<", "<revision>"+c.revision+"<", 1)
		}
		r.publish(t, testKeys().good)
		o.AllowRollback = c.allow
		assert.ErrorIsf(t, assert.Err(OpenReleases(t.Context(), o)), c.want, "step %d: OpenReleases(revision %s of %d)", i, c.revision, c.timestamp)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	r.publish(t, testKeys().good)
	r.publishAt(t, "/mirror/os", testNow, testKeys().good)
	if !bytes.Equal(r.Files["/os/repodata/repomd.xml"], r.Files["/mirror/os/repodata/repomd.xml"]) {
		t.Fatal("the mirror has another repomd.xml")
	}
	digest := func(change func(*Options)) string {
		o := r.options(t)
		change(&o)
		rel := require.Value(OpenReleases(t.Context(), o))(t)
		return rel.Digest()
	}
	first := digest(func(*Options) {})
	assert.Equalf(t, first, digest(func(*Options) {}), "a second time")
	for name, change := range map[string]func(*Options){
		"exclude":  func(o *Options) { o.Sources[0].Exclude = []string{"x"} },
		"priority": func(o *Options) { o.Sources[0].Priority = 1 },
		"arch":     func(o *Options) { o.Arch = "aarch64" },
		"place":    func(o *Options) { o.Sources[0].BaseURLs = []string{strings.TrimSuffix(r.url, "/os") + "/mirror/os"} },
		"modules": func(o *Options) {
			o.Root = testfile.FS(map[string]string{"etc/dnf/modules.d/a.module": "[a]\nstream=1\nstate=enabled\n"})
		},
	} {
		assert.Equalf(t, false, digest(change) == first, "Digest does not depend on %s", name)
	}
	r.Revision = 1750000001
	r.publish(t, testKeys().good)
	assert.Equalf(t, false, digest(func(*Options) {}) == first, "Digest does not depend on repomd.xml")
}

func TestPackagesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	r := newRepository(t,
		repotest.RPM{Name: "climbs", Obsoletes: []string{"old"}, Listing: repotest.Listing{Href: "../../etc/x.rpm"}}, repotest.RPM{Name: "weak", Listing: repotest.Listing{DigestType: "sha", Digest: strings.Repeat("0", 40)}},
		repotest.RPM{Name: "media", Listing: repotest.Listing{Base: "media://1234#1"}}, repotest.RPM{Name: "rich", Requires: []string{"(a or"}},
		repotest.RPM{Name: "elsewhere", Obsoletes: []string{"old", "older", "old"}, Listing: repotest.Listing{Base: "https://example.com/pool/", Href: "a/b+c~1^2.rpm"}}, repotest.RPM{Name: "escaped", Listing: repotest.Listing{Href: "a/b%5E1.rpm"}},
		repotest.RPM{Name: "large", Listing: repotest.Listing{Size: maxPackage + 1}},
		repotest.RPM{Name: "excluded"}, repotest.RPM{Name: "long", Obsoletes: []string{"old"}, Listing: repotest.Listing{DigestType: "sha512", Digest: strings.Repeat("0a", 64)}},
	)
	r.publish(t, testKeys().good)
	o := r.options(t)
	o.Sources[0].Exclude = []string{"excl*.x86_64", "lon[!g]"}
	x := require.Value(openIndex(t.Context(), o))(t)
	for name, why := range map[string]string{"climbs": "above the root", "weak": "does not count", "media": "media", "rich": "rich dependency", "large": "allowed", "excluded": "exclude=excl*.x86_64"} {
		if p, ok := x.Candidate(name); ok {
			t.Errorf("Candidate(%s) = %v", name, p)
		}
		if h := x.Providing(name); len(h) != 1 || !strings.Contains(h[0].Hidden, why) {
			t.Errorf("Providing(%s) = %v; want one that is hidden because of %q", name, h, why)
		}
	}
	for name, url := range map[string]string{"elsewhere": "https://example.com/pool/a/b+c~1%5E2.rpm", "escaped": r.url + "/a/b%5E1.rpm"} {
		if p, ok := x.Candidate(name); !ok || p.URL != url {
			t.Errorf("URL of %s = %+v; want %s", name, p, url)
		}
	}
	if got := x.Obsoleting("old"); len(got) != 2 || got[0].Name != "elsewhere" || got[1].Name != "long" {
		t.Errorf("Obsoleting(old) = %v; want elsewhere and long", got)
	}
	if p, ok := x.Candidate("long"); !ok || p.SHA512 != strings.Repeat("0a", 64) || p.SHA256 != "" {
		t.Errorf("Candidate(long) = %+v", p)
	}
}

// TestPriorities checks the order: the lower priority number wins over the newer version, then the newer
// version, then the cheaper source.
func TestPriorities(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	for dir, evr := range map[string]string{"/a": "1-1", "/b": "2-1", "/c": "2-1"} {
		r.Packages = []repotest.RPM{{Name: "x", EVR: evr}}
		r.publishAt(t, dir, testNow, testKeys().good)
	}
	base := strings.TrimSuffix(r.url, "/os")
	candidate := func(change func(a, b, c *repoconf.Source)) string {
		o := r.options(t)
		var all []repoconf.Source
		for _, id := range []string{"a", "b", "c"} {
			s := o.Sources[0]
			s.ID, s.BaseURLs = id, []string{base + "/" + id}
			all = append(all, s)
		}
		change(&all[0], &all[1], &all[2])
		o.Sources = all
		x := require.Value(openIndex(t.Context(), o))(t)
		p, _ := x.Candidate("x")
		return p.Version + " " + p.Origin
	}
	assert.Equalf(t, "2-1 b", candidate(func(_, _, _ *repoconf.Source) {}), "no priorities")
	assert.Equalf(t, "1-1 a", candidate(func(a, _, _ *repoconf.Source) { a.Priority = 10 }), "a has 10")
	assert.Equalf(t, "2-1 c", candidate(func(_, _, c *repoconf.Source) { c.Cost = 10 }), "c is cheaper")
	assert.Equalf(t, "2-1 b", candidate(func(_, _, c *repoconf.Source) { c.Include = []string{"y"} }), "c includes y only")
}
