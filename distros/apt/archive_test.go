package apt

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/distros/fetch"
)

var testNow = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) *packet.Config {
	return &packet.Config{Time: func() time.Time { return t }, DefaultHash: crypto.SHA512}
}

// keys are made once, because making an RSA key is slow.
var keys = sync.OnceValue(func() (k struct{ ed, rsa, stranger, expired *openpgp.Entity }) {
	create := func(name string, c *packet.Config) *openpgp.Entity {
		e, err := openpgp.NewEntity(name, "", name+"@example.com", c)
		if err != nil {
			panic(err)
		}
		return e
	}
	ed := at(testNow.AddDate(-3, 0, 0))
	ed.Algorithm = packet.PubKeyAlgoEdDSA
	k.ed, k.stranger = create("ed", ed), create("stranger", ed)
	rsa := at(testNow.AddDate(-3, 0, 0))
	rsa.RSABits = 2048
	k.rsa = create("rsa", rsa)
	old := at(testNow.AddDate(-3, 0, 0))
	old.Algorithm, old.KeyLifetimeSecs = packet.PubKeyAlgoEdDSA, 365*24*3600
	k.expired = create("expired", old)
	return k
})

func public(t *testing.T, armoured bool, es ...*openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, e := range es {
		var w io.WriteCloser = nopCloser{&b}
		if armoured {
			var err error
			if w, err = armor.Encode(&b, openpgp.PublicKeyType, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Serialize(w); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if armoured {
			b.WriteString("\n")
		}
	}
	return b.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func clearsigned(t *testing.T, text string, signed time.Time, es ...*openpgp.Entity) []byte {
	t.Helper()
	var private []*packet.PrivateKey
	for _, e := range es {
		private = append(private, e.PrivateKey)
	}
	var b bytes.Buffer
	w, err := clearsign.EncodeMulti(&b, private, at(signed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

// archive is a repository that is served over HTTP. Its fields may be changed before publish, files after it.
type archive struct {
	head     string            // Release fields; "" for a plausible set
	packages map[string]string // component/binary-arch -> lines for control()
	endings  []string          // compressions, all by default
	raw      string            // content of all indexes instead of packages
	plus     int               // added to the size of plain indexes in the Release file
	byHash   bool
	hidden   bool // by-hash is announced but does not exist
	files    map[string][]byte
	requests map[string]int
	mu       sync.Mutex
	url      string
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests[r.URL.Path]++
	data, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

const bookworm = "Origin: Test\nSuite: stable\nCodename: bookworm\nDate: Sat, 20 Jun 2026 10:00:00 UTC\nArchitectures: all amd64 arm64\n" +
	"Components: main contrib\nNo-Support-for-Architecture-all: Packages\n"

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{
		head: bookworm, endings: []string{"", ".gz", ".xz", ".zst"}, files: map[string][]byte{}, requests: map[string]int{},
		packages: map[string]string{"main/binary-amd64": "a 1; Depends: b\nb 1", "contrib/binary-amd64": "c 1; Depends: a"},
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
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
			data := pack(t, cmp.Or(a.raw, control(a.packages[part])), e)
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
				a.files[path.Join(dir, name)] = data
			}
		}
	}
	return text + sums.String() + " " + strings.Repeat("0", 64) + " 7 main/Contents-amd64.gz\n"
}

// publish turns it into a signed repository at /debian, suite bookworm.
func (a *archive) publish(t *testing.T, es ...*openpgp.Entity) {
	t.Helper()
	const dir = "/debian/dists/bookworm"
	a.files[dir+"/InRelease"] = clearsigned(t, a.release(t, dir), testNow.AddDate(0, 0, -10), es...)
}

func pack(t *testing.T, text, ending string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = nopCloser{&b}
	var err error
	switch ending {
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// options returns options that trust the ed25519 key and read bookworm main.
func (a *archive) options(t *testing.T) Options {
	t.Helper()
	store, err := fetch.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Arch: "amd64", Now: testNow,
		Sources: []Source{{
			Origin: "test", URIs: []string{a.url + "/debian"}, Suites: []string{"bookworm"}, Components: []string{"main"},
			Key: string(public(t, true, keys().ed)),
		}},
	}
}
