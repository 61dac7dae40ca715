package rpm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

const metalinkHead = `<?xml version="1.0" encoding="utf-8"?>
<metalink version="3.0" xmlns="http://www.metalinker.org/" type="dynamic" xmlns:mm0="http://example.org/mirrormanager">
 <files><file name="repomd.xml"><mm0:timestamp>1729000000</mm0:timestamp><size>%d</size>
  <verification><hash type="md5">x</hash><hash type="sha256">%s</hash></verification>
  <mm0:alternates><mm0:alternate><size>5</size><verification><hash type="sha512">%s</hash></verification></mm0:alternate></mm0:alternates>
  <resources maxconnections="1">`

func metalink(repomd []byte, urls ...string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, metalinkHead, len(repomd), fmt.Sprintf("%x", sha256.Sum256(repomd)), strings.Repeat("0a", 64))
	for i, u := range urls {
		fmt.Fprintf(&text, `<url protocol="http" type="http" location="DE" preference="%d">%s/repodata/repomd.xml</url>`, 10+i, u)
	}
	text.WriteString(`<url protocol="rsync" type="rsync" preference="100">rsync://x/repodata/repomd.xml</url></resources></file></files></metalink>`)
	return []byte(text.String())
}

// TestMirrors checks that mirrors which are unreachable, outdated or forged are passed over, and that only a
// repomd.xml that the metalink names is accepted.
func TestMirrors(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	base := strings.TrimSuffix(r.url, "/os")
	r.publish(t, testKeys().good)
	current := r.Files["/os/repodata/repomd.xml"]
	r.Revision = 1
	r.publishAt(t, "/old", testNow, testKeys().good)
	r.publishAt(t, "/forged", testNow, testKeys().stranger)
	r.Files["/list"] = []byte("# mirrors\n\nftp://x/\n" + base + "/gone/\n" + base + "/forged\n" + base + "/$way\n")
	r.Files["/metalink"] = metalink(current, base+"/os", base+"/old", base+"/gone")
	r.Files["/metalink-old"] = metalink(current, base+"/old")
	r.Files["/metalink-weak"] = []byte(strings.ReplaceAll(string(r.Files["/metalink"]), `type="sha`, `type="x`))
	r.Files["/empty"] = []byte("# nothing\n")
	for _, c := range []struct {
		name   string
		source repoconf.Source
		vars   repoconf.Vars
		want   error
	}{
		{"list", repoconf.Source{MirrorList: base + "/list"}, repoconf.Vars{"way": "os"}, nil},
		{"forged only", repoconf.Source{MirrorList: base + "/list"}, nil, pgp.ErrSignature},
		{"metalink", repoconf.Source{Metalink: base + "/metalink"}, nil, nil},
		{"unknown variable in the question", repoconf.Source{Metalink: base + "/metalink?repo=x&infra=$infra"}, nil, nil},
		{"unknown variable in the path", repoconf.Source{Metalink: base + "/$infra/metalink"}, nil, distros.ErrSources},
		{"metalink named as a list", repoconf.Source{MirrorList: base + "/metalink"}, nil, nil},
		{"metalink and an old base URL", repoconf.Source{Metalink: base + "/metalink", BaseURLs: []string{base + "/old"}}, nil, nil},
		{"old only", repoconf.Source{Metalink: base + "/metalink-old"}, nil, distros.ErrIndex},
		{"weak metalink", repoconf.Source{Metalink: base + "/metalink-weak"}, nil, distros.ErrIndex},
		{"empty", repoconf.Source{MirrorList: base + "/empty"}, nil, distros.ErrIndex},
		{"several base URLs", repoconf.Source{BaseURLs: []string{base + "/gone", base + "/forged", base + "/os"}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := r.options(t)
			s := c.source
			s.ID, s.RepoGPGCheck, s.Key = "os", true, o.Sources[0].Key
			o.Sources, o.Vars = []repoconf.Source{s}, c.vars
			x, err := openIndex(t.Context(), o)
			if !errors.Is(err, c.want) {
				t.Fatalf("Open = %v; want %v", err, c.want)
			}
			if err == nil {
				checkBasics(t, x, r.url)
			}
		})
	}
}

// TestOtherMirrorForLists checks that a list which is missing in the folder that served repomd.xml is fetched
// from another mirror.
func TestOtherMirrorForLists(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	base := strings.TrimSuffix(r.url, "/os")
	r.publish(t, testKeys().good)
	r.publishAt(t, "/half", testNow, testKeys().good)
	r.Files["/half/repodata/primary.xml.gz"][40] ^= 1
	o := r.options(t)
	o.Sources[0].BaseURLs = []string{base + "/half", r.url}
	x := require.Value(openIndex(t.Context(), o))(t)
	checkBasics(t, x, base+"/half")
	r.Lock()
	defer r.Unlock()
	assert.Equalf(t, 1, r.Requests["GET /os/repodata/primary.xml.gz"], "the second mirror was not asked")
}

func TestMirrorOfMirrorList(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	base := strings.TrimSuffix(r.url, "/os")
	r.Files["/core/mirror.list"] = []byte("https://cdn.example.com/os\n")
	o.Sources[0].BaseURLs, o.Sources[0].MirrorList, o.Mirror = nil, "https://cdn.example.com/core/mirror.list", require.Value(distros.ParseMirror(base))(t)
	x := require.Value(openIndex(t.Context(), o))(t)
	checkBasics(t, x, r.url)
}

func FuzzMirrors(f *testing.F) {
	f.Add([]byte("# list\nhttp://a.example/$basearch/\nftp://x\n"))
	f.Add(metalink([]byte("x"), "http://a.example/os", "https://b.example/os"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMirrors(data, repoconf.Vars{"basearch": "x86_64"})
		if err != nil {
			assert.ErrorIs(t, err, distros.ErrIndex)
			return
		}
		for _, u := range m.folders {
			assert.Equalf(t, true, repoconf.IsRemote(u), "mirror %q", u)
		}
		if len(m.folders) == 0 || len(m.sums) > 0 && m.permits([]byte("another")) && !strings.Contains(string(data), "ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5") {
			t.Errorf("mirrors = %+v", m)
		}
	})
}
