package apt

import (
	"bytes"
	"cmp"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
)

var testNow = repotest.Now

// keys are made once, because making an RSA key is slow.
var keys = sync.OnceValue(func() (k struct{ ed, rsa, stranger, expired *openpgp.Entity }) {
	k.ed, k.stranger = repotest.Key("ed", 0), repotest.Key("stranger", 0)
	rsa := repotest.At(testNow.AddDate(-3, 0, 0))
	rsa.Algorithm, rsa.RSABits = packet.PubKeyAlgoRSA, 2048
	k.rsa = repotest.KeyOf("rsa", rsa)
	k.expired = repotest.Key("expired", 365*24*time.Hour)
	return k
})

func public(t *testing.T, armoured bool, es ...*openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, e := range es {
		if armoured {
			b.WriteString(repotest.Armour(t, openpgp.PublicKeyType, e.Serialize))
			continue
		}
		require.NoError(t, e.Serialize(&b))
	}
	return b.Bytes()
}

// archive is a repository that is served over HTTP. Its fields may be changed before publish, files after it.
type archive struct {
	*repotest.Server
	repotest.Indexes
	packages map[string]string // component/binary-arch -> lines for control()
	raw      string            // content of all indexes instead of packages
}

const bookworm = "Origin: Test\nSuite: stable\nCodename: bookworm\nDate: Sat, 20 Jun 2026 10:00:00 UTC\nArchitectures: all amd64 arm64\n" +
	"Components: main contrib\nNo-Support-for-Architecture-all: Packages\n"

func newArchive(t *testing.T) *archive {
	t.Helper()
	return &archive{
		Indexes: repotest.Indexes{Head: bookworm, Endings: []string{"", ".gz", ".xz", ".zst"}}, Server: repotest.Serve(t, nil),
		packages: map[string]string{"main/binary-amd64": "a 1; Depends: b\nb 1", "contrib/binary-amd64": "c 1; Depends: a"},
	}
}

// release writes the indexes below a folder and returns the text of the Release file.
func (a *archive) release(t *testing.T, dir string) string {
	t.Helper()
	a.Lists = map[string]string{}
	for part, lines := range a.packages {
		a.Lists[part] = cmp.Or(a.raw, control(lines))
	}
	return a.Write(t, dir, func(path string, data []byte) { a.Files[path] = data })
}

// publish turns it into a signed repository at /debian, suite bookworm.
func (a *archive) publish(t *testing.T, es ...*openpgp.Entity) {
	t.Helper()
	const dir = "/debian/dists/bookworm"
	a.Files[dir+"/InRelease"] = repotest.Clearsigned(t, a.release(t, dir), testNow.AddDate(0, 0, -10), es...)
}

// options returns options that trust the ed25519 key and read bookworm main.
func (a *archive) options(t *testing.T) Options {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	return Options{
		Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Root: testfile.FS(nil), Arch: "amd64", Now: testNow,
		Sources: []Source{{
			Origin: "test", URIs: []string{a.URL + "/debian"}, Suites: []string{"bookworm"}, Components: []string{"main"},
			Key: string(public(t, true, keys().ed)),
		}},
	}
}
