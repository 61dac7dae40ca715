// Package repotest has what the tests of package repositories share: a server of files, keys and signatures
// of a fixed day, and compression. It knows no format of a repository.
package repotest

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// Now is the day on which the tests read repositories.
var Now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// At returns the settings of a key that is made, or that signs, at a time.
func At(t time.Time) *packet.Config {
	return &packet.Config{Time: func() time.Time { return t }, DefaultHash: crypto.SHA512, Algorithm: packet.PubKeyAlgoEdDSA}
}

// Key makes a key three years before Now; with a lifetime of 0 it has no end. It panics on errors, so that
// tests can make their keys once.
func Key(name string, lifetime time.Duration) *openpgp.Entity {
	c := At(Now.AddDate(-3, 0, 0))
	c.KeyLifetimeSecs = uint32(lifetime.Seconds())
	e, err := openpgp.NewEntity(name, "", name+"@example.com", c)
	if err != nil {
		panic(err) //nolint:forbidigo // test support, and this configuration is valid
	}
	return e
}

// Armour returns an armoured block of one type.
func Armour(t testing.TB, kind string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, kind, nil)
	if err == nil {
		err = errors.Join(write(w), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// Compress compresses data as the ending of a file name says: ".gz", ".xz", ".zst", ".lzma", or "" for
// not at all.
func Compress(t testing.TB, ending string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ending {
	case "":
		return data
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".xz":
		w, err = xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b) // a small dictionary, because every test allocates it again
	case ".zst":
		w, err = zstd.NewWriter(&b)
	case ".lzma":
		w, err = lzma.NewWriter(&b)
	default:
		t.Fatalf("no compression has the ending %q", ending)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Server serves Files over HTTP and counts the requests by path.
type Server struct {
	sync.Mutex // guards the maps while requests are possible

	URL      string
	Files    map[string][]byte
	Requests map[string]int
}

// Serve starts the server of an empty set of files. It ends with the test.
func Serve(t testing.TB) *Server {
	t.Helper()
	s := &Server{Files: map[string][]byte{}, Requests: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	s.Requests[r.URL.Path]++
	data, ok := s.Files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
