package rpm

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

func FuzzSources(f *testing.F) {
	f.Add("[a]\nname=x\nbaseurl=http://example.com/$releasever\n  https://u:p@b/?q\ngpgcheck=1\n#baseurl=http://x\nexclude=a b\n", true)
	f.Add("[a]\nmirrorlist: http://x/${a:-b}\nenabled=0\n[b]\nproxy=http://x\nproxy_username=u\n", false)
	f.Fuzz(func(t *testing.T, text string, zypp bool) {
		name := "etc/yum.repos.d/x.repo"
		if zypp {
			name = "etc/zypp/repos.d/x.repo"
		}
		sources, err := ReadSources(textFS(map[string]string{name: text}), Vars{"releasever": "9.4", "a": "$a"})
		if err != nil {
			if !errors.Is(err, ErrSources) {
				t.Error(err)
			}
			return
		}
		for i := range sources {
			s := &sources[i]
			if s.check() != nil {
				continue
			}
			for _, u := range s.BaseURLs {
				if strings.Contains(u, "?") || remote(u) && strings.Contains(strings.Split(u, "/")[2], "@") {
					t.Errorf("a secret stayed in %q", u)
				}
			}
		}
		if _, err := WithMirror(sources, "http://m.example/a b=http://n"); err != nil && !errors.Is(err, ErrSources) {
			t.Error(err)
		}
	})
}

func FuzzRepomd(f *testing.F) {
	f.Add([]byte(`<repomd><revision>1</revision><data type="primary"><checksum type="sha256">` + strings.Repeat("0a", 32) + `</checksum><location href="a/b"/><size>1</size><timestamp>1.5</timestamp></data></repomd>`))
	f.Add([]byte(`<repomd><data type="primary_db"><checksum type="sha512">` + strings.Repeat("0a", 64) + `</checksum><location xml:base="http://x/" href="a"/></data></repomd>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		md, err := parseRepomd(data)
		if err != nil {
			if !errors.Is(err, ErrIndex) {
				t.Error(err)
			}
			return
		}
		for kind, l := range md.lists {
			if len(l.sum.digest()) != 64 && len(l.sum.digest()) != 128 || l.sum.size < 0 || l.open.size < 0 {
				t.Errorf("list %q: %+v", kind, l)
			}
			if u, err := join("https://h/r", l.base, l.href); err != nil || strings.Contains(u, "/../") {
				t.Errorf("list %q is at %q, %v", kind, u, err)
			}
		}
	})
}

func FuzzPrimary(f *testing.F) {
	f.Add([]byte(primaryOf(basics())))
	f.Add([]byte(`<metadata><package><name>a</name><arch>noarch</arch><version ver="1" rel="1"/><format><rpm:requires><rpm:entry name="(a or b)"/></rpm:requires><file/></format></package></metadata>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newBuilder(&repo{source: Source{ID: "x"}}, "https://example.com/os", "x86_64")
		if err := b.readPrimary(strings.NewReader(string(data))); err != nil {
			return
		}
		x := &Index{arch: "x86_64", entries: b.entries}
		x.build()
		for _, name := range x.Names("") {
			for _, p := range x.Versions(name) {
				if p.Name == "" || p.Version == "" || p.Size <= 0 || len(p.SHA256)+len(p.SHA512) == 0 || strings.Contains(p.URL, "/../") {
					t.Errorf("%+v", p)
				}
				found := false
				for _, q := range x.WhatProvides(rpmfile.Relation{Name: p.Name}) {
					found = found || p == q
				}
				if !found {
					t.Errorf("%s is not found by its name", p)
				}
			}
		}
	})
}

func FuzzFilelists(f *testing.F) {
	f.Add([]byte(filelistsOf(basics())))
	f.Fuzz(func(t *testing.T, data []byte) {
		found := map[string][]string{}
		if err := readFilelists(strings.NewReader(string(data)), map[string]bool{"/usr/bin/gcc": true}, found); err != nil {
			return
		}
		for _, names := range found {
			for _, n := range names {
				if n != "/usr/bin/gcc" {
					t.Errorf("found %q", n)
				}
			}
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add([]byte(moduleDocument("nodejs:10", "1", "c1", "platform: [el8]", "nodejs-1:10.1-1.x86_64") + moduleDefault("nodejs", `"10"`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := parseModules(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		entries := []entry{{name: "nodejs", arch: "x86_64", evr: rpmfile.EVR{Epoch: "1", Version: "10.1", Release: "1"}}}
		hideByModules(entries, docs, moduleState{Streams: map[string]string{"a": "b"}, Platform: "el8"})
	})
}

func FuzzMirrors(f *testing.F) {
	f.Add([]byte("# list\nhttp://a.example/$basearch/\nftp://x\n"))
	f.Add(metalink([]byte("x"), "http://a.example/os", "https://b.example/os"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMirrors(data, Vars{"basearch": "x86_64"})
		if err != nil {
			if !errors.Is(err, ErrIndex) {
				t.Error(err)
			}
			return
		}
		for _, u := range m.folders {
			if !remote(u) {
				t.Errorf("mirror %q", u)
			}
		}
		if len(m.folders) == 0 || len(m.sums) > 0 && m.permits([]byte("another")) && !strings.Contains(string(data), "ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5") {
			t.Errorf("mirrors = %+v", m)
		}
	})
}

func FuzzVars(f *testing.F) {
	f.Add("http://$a/${b:-$c}/${releasever_major:+x}")
	f.Fuzz(func(t *testing.T, text string) {
		if out := (Vars{"a": "$a$a", "releasever": "9.4"}).Expand(text); len(out) > 10*len(text)+maxConfig {
			t.Errorf("%d bytes became %d", len(text), len(out))
		}
	})
}
