package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestMain lets tests start this binary again as another process that downloads, so that locks, kill -9 and a
// full disk are real.
func TestMain(m *testing.M) {
	if os.Getenv("FETCH_TEST_CHILD") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func child() int {
	if dir := os.Getenv("FETCH_TEST_TMPFS"); dir != "" {
		if err := mountTiny(dir); err != nil {
			fmt.Println("SKIP", err)
			return 0
		}
	}
	s, err := OpenStore(os.Getenv("FETCH_TEST_STORE"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	size, err := strconv.ParseInt(os.Getenv("FETCH_TEST_SIZE"), 10, 64)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c := &Client{Store: s, Attempts: 2, Backoff: time.Millisecond, Stall: 10 * time.Second}
	f := File{URL: os.Getenv("FETCH_TEST_URL"), SHA256: os.Getenv("FETCH_TEST_SHA256"), Size: size}
	path, cached, err := c.Get(context.Background(), f, func(done, _ int64) { fmt.Println("progress", done) })
	if err != nil {
		fmt.Println("error", err)
		for _, sub := range []string{blobsDir, partialDir} {
			entries, err := os.ReadDir(s.dir + "/" + sub)
			fmt.Println("left in", sub, entries, err)
		}
		return 1
	}
	fmt.Println("path", path, cached)
	return 0
}

// content returns pseudo-random bytes, the same for the same size.
func content(size int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(size))) //nolint:gosec // a test's content
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func newStore(t *testing.T) *Store {
	t.Helper()
	return require.Value(OpenStore(t.TempDir()))(t)
}

func newClient(t *testing.T) *Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{Store: newStore(t), HTTP: &http.Client{Transport: transport}, Attempts: 3, Backoff: time.Millisecond}
}

// server serves one file, with the faults of a test, and records the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

// serve starts a server whose handler gets the number of the request, from 1.
func serve(t *testing.T, h func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		n := len(s.requests)
		s.mu.Unlock()
		h(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *server) request(i int) *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[i]
}

// whole serves a whole file as real servers do: with ranges and validators.
func whole(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("ETag", `"`+digest(data)[:8]+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

// cut announces the whole file, sends its first n bytes and closes the connection.
func cut(w http.ResponseWriter, data []byte, n int) {
	w.Header().Set("ETag", `"`+digest(data)[:8]+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// get downloads a file and checks what must hold after every success.
func get(t *testing.T, c *Client, f File) (cached bool) {
	t.Helper()
	path, cached, err := c.Get(t.Context(), f, nil)
	require.NoErrorf(t, err, "Get(%+v)", f)
	checkBlob(t, c, f, path)
	return cached
}

func checkBlob(t *testing.T, c *Client, f File, path string) {
	t.Helper()
	assert.Equalf(t, c.Store.Path(f.SHA256), path, "path")
	data := require.Value(os.ReadFile(path))(t)
	assert.Equalf(t, f.SHA256, digest(data), "the store holds other bytes than asked for")
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o444 {
		t.Errorf("mode of blob = %v, %v; want 0444", fi.Mode(), err)
	}
	checkEmpty(t, c.Store, partialDir)
}

// checkEmpty fails the test when a folder of the store is not empty.
func checkEmpty(t *testing.T, s *Store, sub string) {
	t.Helper()
	entries := require.Value(os.ReadDir(s.dir + "/" + sub))(t)
	for _, e := range entries {
		t.Errorf("left behind: %s/%s", sub, e.Name())
	}
}
