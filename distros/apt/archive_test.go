package apt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/repotest"
)

var (
	testNow = repotest.Now
	at      = repotest.At
)

// keys are made once, because making an RSA key is slow.
var keys = sync.OnceValue(func() (k struct{ ed, rsa, stranger, expired *openpgp.Entity }) {
	k.ed, k.stranger = repotest.Key("ed", 0), repotest.Key("stranger", 0)
	rsa := at(testNow.AddDate(-3, 0, 0))
	rsa.Algorithm, rsa.RSABits = packet.PubKeyAlgoRSA, 2048
	var err error
	if k.rsa, err = openpgp.NewEntity("rsa", "", "rsa@example.com", rsa); err != nil {
		panic(err)
	}
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
		must(t, e.Serialize(&b))
	}
	return b.Bytes()
}

func clearsigned(t *testing.T, text string, signed time.Time, es ...*openpgp.Entity) []byte {
	t.Helper()
	var private []*packet.PrivateKey
	for _, e := range es {
		private = append(private, e.PrivateKey)
	}
	var b bytes.Buffer
	w, err := clearsign.EncodeMulti(&b, private, at(signed))
	must(t, err)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	return append(b.Bytes(), '\n')
}

// archive is a repository that is served over HTTP. Its fields may be changed before publish, files after it.
type archive struct {
	*repotest.Server
	head     string            // Release fields; "" for a plausible set
	packages map[string]string // component/binary-arch -> lines for control()
	endings  []string          // compressions, all by default
	raw      string            // content of all indexes instead of packages
	plus     int               // added to the size of plain indexes in the Release file
	byHash   bool
	hidden   bool // by-hash is announced but does not exist
}

const bookworm = "Origin: Test\nSuite: stable\nCodename: bookworm\nDate: Sat, 20 Jun 2026 10:00:00 UTC\nArchitectures: all amd64 arm64\n" +
	"Components: main contrib\nNo-Support-for-Architecture-all: Packages\n"

func newArchive(t *testing.T) *archive {
	t.Helper()
	return &archive{
		head: bookworm, endings: []string{"", ".gz", ".xz", ".zst"}, Server: repotest.Serve(t),
		packages: map[string]string{"main/binary-amd64": "a 1; Depends: b\nb 1", "contrib/binary-amd64": "c 1; Depends: a"},
	}
}

// release writes the indexes below a folder and returns the text of the Release file.
func (a *archive) release(t *testing.T, dir string) string {
	t.Helper()
	text := a.head
	if a.byHash {
		text += "Acquire-By-Hash: yes\n"
	}
	var sums strings.Builder
	text += "MD5Sum:\n d41d8cd98f00b204e9800998ecf8427e 0 main/binary-amd64/Packages\nSHA256:\n"
	for _, part := range slices.Sorted(maps.Keys(a.packages)) {
		for _, e := range a.endings {
			data := repotest.Compress(t, e, []byte(cmp.Or(a.raw, control(a.packages[part]))))
			sum := fmt.Sprintf("%x", sha256.Sum256(data))
			name := path.Join(part, "Packages"+e)
			size := len(data)
			if e == "" {
				size += a.plus
			}
			fmt.Fprintf(&sums, " %s %d %s\n", sum, size, name)
			if a.byHash && !a.hidden {
				name = path.Join(part, "by-hash/SHA256", sum)
			}
			if e != "" || len(a.endings) == 1 { // like Debian, which lists only the plain ones
				a.Files[path.Join(dir, name)] = data
			}
		}
	}
	return text + sums.String() + " " + strings.Repeat("0", 64) + " 7 main/Contents-amd64.gz\n"
}

// publish turns it into a signed repository at /debian, suite bookworm.
func (a *archive) publish(t *testing.T, es ...*openpgp.Entity) {
	t.Helper()
	const dir = "/debian/dists/bookworm"
	a.Files[dir+"/InRelease"] = clearsigned(t, a.release(t, dir), testNow.AddDate(0, 0, -10), es...)
}

// options returns options that trust the ed25519 key and read bookworm main.
func (a *archive) options(t *testing.T) Options {
	t.Helper()
	store, err := fetch.OpenStore(t.TempDir())
	must(t, err)
	return Options{
		Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Arch: "amd64", Now: testNow,
		Sources: []Source{{
			Origin: "test", URIs: []string{a.URL + "/debian"}, Suites: []string{"bookworm"}, Components: []string{"main"},
			Key: string(public(t, true, keys().ed)),
		}},
	}
}

// failer is a test of package testing or rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
