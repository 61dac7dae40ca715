package headers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
)

// TestReadConf asks the real apt-config about an image's files, of which the later ones count.
func TestReadConf(t *testing.T) {
	t.Parallel()
	i := newImage(t, "http://archive.invalid")
	i.write("etc/apt/apt.conf.d/01base", `Acquire::http::Proxy "base"; Acquire::a "1"; APT::x "y"; Acquire::Languages { "none"; };`)
	i.write("etc/apt/apt.conf.d/90proxy.conf", "Acquire { http { Proxy \"http://u:%41 \\p@mounted/\"; Proxy::Host.example \"DIRECT\"; }; };\n// Acquire::b \"1\";\n")
	i.write("etc/apt/apt.conf.d/99.bak", `Acquire::http::Proxy "old";`)
	i.write("etc/apt/apt.conf", `Acquire::a "2";`)
	var log logtest.Log
	read := func() conf {
		f := fetcher{Options: Options{Root: i.dir, Log: log.Logger()}}
		return f.readConf(t.Context())
	}
	got := read()
	for name, want := range map[string]string{"acquire::http::proxy": `http://u:%41 \p@mounted/`, "acquire::http::proxy::host.example": "DIRECT", "acquire::a": "2", "acquire::b": "", "apt::x": ""} {
		assert.Equalf(t, want, got[name], "%s", name)
	}
	i.write("etc/apt/apt.conf.d/50broken.conf", `Acquire::b "`)
	if got := read(); len(got) > 0 || !strings.Contains(log.String(), "50broken.conf") {
		t.Errorf("%v, %s", got, log.String())
	}
}

func FuzzParseDump(f *testing.F) {
	f.Add("Acquire::http::Proxy \"http://a/%22\";\nAcquire::Languages:: \"en\";\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name := range parseDump(text) {
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
			assert.Equal(t, fmt.Sprint(test.want), fmt.Sprint(got))
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
