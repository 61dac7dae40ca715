package headers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/logtest"
)

func TestParseConf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       conf
		err        string
	}{
		{"one line", `Acquire::http::Proxy "http://proxy:3128";`, conf{"acquire::http::proxy": "http://proxy:3128"}, ""},
		{"no quotes", "Acquire::https::Verify-Peer false;", conf{"acquire::https::verify-peer": "false"}, ""},
		{"scopes", "Acquire {\n http { Proxy \"http://a/\"; Proxy::host.example \"DIRECT\"; };\n https::Proxy \"http://b/\";\n};\n",
			conf{"acquire::http::proxy": "http://a/", "acquire::http::proxy::host.example": "DIRECT", "acquire::https::proxy": "http://b/"}, ""},
		{"case, no blanks, no last semicolon of a scope", `aCQUIRE{HTTP{proxy"http://a";}}`, conf{"acquire::http::proxy": "http://a"}, ""},
		{"later wins", `Acquire::http::Proxy "a"; Acquire::http::Proxy "b";`, conf{"acquire::http::proxy": "b"}, ""},
		{"set to nothing", `Acquire::http::Proxy "a"; Acquire::http::Proxy "";`, conf{"acquire::http::proxy": ""}, ""},
		{"comments", "// Acquire::http::Proxy \"a\";\n# Acquire::http::Proxy \"b\";\n/* Acquire::http::Proxy \"c\";\n */ Acquire::x \"//#/*\"; // \"\n", conf{"acquire::x": "//#/*"}, ""},
		{"comment at the end", "Acquire::x \"1\"; #", conf{"acquire::x": "1"}, ""},
		{"of others", "APT { NeverAutoRemove { \"^firmware-linux.*\"; \"x\"; }; };\nDPkg::Post-Invoke { \"rm -f /x || true; }\"; };\nAPT::List:: \"a\";\nDir::Cache::pkgcache \"\";", conf{}, ""},
		{"items of a list", "Acquire::IndexTargets { deb::DEP-11 { MetaKey \"$(COMPONENT)/x\"; \"y\"; }; }; Acquire::Languages { \"none\"; }; Acquire::Languages:: \"en\";",
			conf{"acquire::indextargets::deb::dep-11::metakey": "$(COMPONENT)/x"}, ""},
		{"value before a scope", `Acquire::http "x" { Proxy "a"; };`, conf{"acquire::http::proxy": "a"}, ""},
		{"clear", "Acquire::http::Proxy \"a\"; Acquire::http::Proxy::h \"b\"; Acquire::https::Proxy \"c\";\n#clear Acquire::http;\n", conf{"acquire::https::proxy": "c"}, ""},
		{"clear a name like others", "Acquire::a \"1\"; Acquire::ab \"2\"; #clear Acquire::a;", conf{"acquire::ab": "2"}, ""},
		{"two lines in quotes", "Acquire::x \"1\n2\";", conf{"acquire::x": "1\n2"}, ""},
		{"empty", " \n;;\n", conf{}, ""},
		{"URL without quotes is a comment, as in apt", "Acquire::http::Proxy http://proxy:3128;\n", conf{}, "line 2: it ends in the middle"},
		{"include", "Acquire::a \"1\";\n#include \"/etc/x\";", conf{"acquire::a": "1"}, "line 2: #include is not supported"},
		{"open quote", "Acquire::a \"1\";\n\n Acquire::b \"1;", conf{"acquire::a": "1"}, "line 3: a quote is not closed"},
		{"open comment", "/* x", conf{}, "a comment is not closed"},
		{"open scope", "Acquire {", conf{}, "in the middle"},
		{"extra brace", "};", conf{}, "closing brace"},
		{"brace without name", "{", conf{}, "a brace without a name"},
		{"brace for a semicolon", "Acquire { x \"1\" };", conf{}, "closing brace"},
		{"deep", strings.Repeat("a{", 100), conf{}, "more than 32"},
		{"words", strings.Repeat("a ", 100), conf{}, "more than 16 words"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := conf{}
			err := got.parse(test.text)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v; want %q", err, test.err)
			}
			assert.Same(t, test.want, got)
		})
	}
	var many strings.Builder
	for n := range maxValues + 1 {
		fmt.Fprintf(&many, "Acquire::%d \"x\";\n", n)
	}
	assert.ErrorContains(t, (conf{}).parse(many.String()), "too many")
}

func TestReadConf(t *testing.T) {
	t.Parallel()
	root := fstest.MapFS{
		"etc/apt/apt.conf.d/01base":        {Data: []byte(`Acquire::http::Proxy "base"; Acquire::a "1";`)},
		"etc/apt/apt.conf.d/50broken.conf": {Data: []byte("Acquire::b \"1\";\nAcquire::http::Proxy \"bro")},
		"etc/apt/apt.conf.d/90proxy.conf":  {Data: []byte(`Acquire::http::Proxy "mounted";`)},
		"etc/apt/apt.conf.d/99.bak":        {Data: []byte(`Acquire::http::Proxy "old";`)},
		"etc/apt/apt.conf.d/.hidden":       {Data: []byte(`Acquire::http::Proxy "hidden";`)},
		"etc/apt/apt.conf.d/98big":         {Data: make([]byte, maxConf+1)},
		"etc/apt/apt.conf":                 {Data: []byte(`Acquire::a "2";`)},
	}
	var log logtest.Log
	got := readConf(root, log.Logger())
	assert.Same(t, conf{"acquire::http::proxy": "mounted", "acquire::a": "2", "acquire::b": "1"}, got)
	if said := log.Lines(); len(said) != 2 || !strings.Contains(said[0], "50broken.conf: line 2: a quote") || !strings.Contains(said[1], "98big: larger than") {
		t.Errorf("%q", said)
	}
	if got := readConf(fstest.MapFS{}, nil); len(got) > 0 {
		t.Error(got)
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add("Acquire { http { Proxy \"http://a/\"; }; };\n#clear Acquire::http;")
	f.Add("/* x */ a // b\n{ c \"d\"; }")
	f.Add("#include \"x\";")
	f.Fuzz(func(t *testing.T, text string) {
		a, b := conf{}, conf{}
		if errA, errB := a.parse(text), b.parse(text); !maps.Equal(a, b) || (errA == nil) != (errB == nil) {
			t.Fatal("two answers")
		}
		for name := range a {
			if !strings.HasPrefix(name, "acquire::") || name != strings.ToLower(name) {
				t.Fatalf("kept %q", name)
			}
		}
	})
}

func TestParseLogins(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []login
		err        string
	}{
		{"plain", "machine example.org login apt password debian\n", []login{{host: "example.org", user: "apt", password: "debian"}}, ""},
		{"lines", "machine http://Example.org:8080/debian\n\tlogin apt\n\tpassword p#:w\"d\nmachine b login x", []login{
			{scheme: "http", host: "example.org", port: "8080", path: "/debian", user: "apt", password: `p#:w"d`}, {host: "b", user: "x"}}, ""},
		{"password is a keyword", "machine a login machine password login", []login{{host: "a", user: "machine", password: "login"}}, ""},
		{"unknown tokens", "default login x password y machine a account z login u", []login{{host: "a", user: "u"}}, ""},
		{"cut", "machine a login", []login{{host: "a"}}, ""},
		{"empty", "", nil, ""},
		{"no host", "machine http:///x login secret-user", nil, "machine 1: want host"},
		{"login in the host", "machine b machine u:secret@a", []login{{host: "b"}}, "machine 2: want host"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseLogins(test.text)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %v; want %q", err, test.err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v; want %v", got, test.want)
			}
		})
	}
	assert.Errorf(t, assert.Err(parseLogins(strings.Repeat("machine a ", maxLogins+1))), "no bound")
}

func FuzzParseLogins(f *testing.F) {
	f.Add("machine http://a:1/b login c password d")
	f.Add("machine [::1]:x")
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := parseLogins(text)
		for _, l := range all {
			if l.host == "" || l.host != strings.ToLower(l.host) {
				t.Fatalf("host %q", l.host)
			}
		}
	})
}
