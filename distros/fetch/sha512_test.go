package fetch

import (
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func longDigest(data []byte) string { return fmt.Sprintf("%x", sha512.Sum512(data)) }

// TestSHA512: content with only a known sha512 is verified by it, and found again by either digest.
func TestSHA512(t *testing.T) {
	t.Parallel()
	data := content(300_000)
	for _, both := range []bool{false, true} {
		srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				cut(w, data, 1000) // resumed
				return
			}
			whole(w, r, data)
		})
		c := newClient(t)
		f := File{URL: srv.URL + "/x.rpm", SHA512: longDigest(data), Size: int64(len(data))}
		if both {
			f.SHA256 = digest(data)
		}
		path, cached, err := c.Get(t.Context(), f, nil)
		if err != nil || cached {
			t.Fatalf("Get = %v, %v", cached, err)
		}
		assert.Equalf(t, digest(data), digest(require.Value(os.ReadFile(path))(t)), "content of %s", path)
		for _, d := range []string{digest(data), longDigest(data)} {
			if in, err := c.Store.Open(d); err != nil || !c.Store.Has(d) {
				t.Errorf("Open(%.8s) = %v", d, err)
			} else if err := in.Close(); err != nil {
				t.Error(err)
			}
		}
		checkEmpty(t, c.Store, partialDir)
		for _, again := range []File{{URL: f.URL, SHA512: f.SHA512}, {URL: f.URL, SHA256: digest(data)}} {
			if _, cached, err := c.Get(t.Context(), again, nil); err != nil || !cached {
				t.Errorf("second Get = %v, %v", cached, err)
			}
		}
		require.NoError(t, os.Remove(c.Store.Path(digest(data))))
		assert.Equalf(t, false, c.Store.Has(longDigest(data)), "a record of nothing counts as content")
		if _, cached, err := c.Get(t.Context(), File{URL: f.URL, SHA512: f.SHA512}, nil); err != nil || cached || !c.Store.Has(f.SHA512) {
			t.Errorf("Get after the blob was removed = %v, %v", cached, err)
		}
	}
}

// TestPinned: what changed since its download is found while it is read, by either digest, and goes.
func TestPinned(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	none := func(io.Reader) error { return fs.ErrInvalid }
	for _, f := range []File{{URL: srv.URL, SHA256: digest(data)}, {URL: srv.URL, SHA512: longDigest(data)}} {
		c := newClient(t)
		path, _, err := c.Get(t.Context(), f, nil)
		require.NoError(t, err)
		assert.ErrorIs(t, Pinned(t.Context(), path, f, none), fs.ErrInvalid)
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, make([]byte, len(data)), 0o600))
		damage := require.ErrorAs[*MismatchError](t, Pinned(t.Context(), path, f, none))
		assert.Equal(t, 1, require.Value(c.Store.RemoveDamaged(damage.Want))(t))
		_, cached, err := c.Get(t.Context(), f, nil)
		assert.Equalf(t, false, cached || err != nil, "again: %v", err)
	}
}

func TestSHA512Refused(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	local := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(local, data, 0o600))
	c := newClient(t)
	for _, url := range []string{srv.URL, "file://" + local} {
		other := longDigest([]byte("x"))
		for _, f := range []File{{SHA512: other}, {SHA256: digest(data), SHA512: other}, {SHA256: digest([]byte("x")), SHA512: longDigest(data)}} {
			f.URL = url
			var e *MismatchError
			if _, _, err := c.Get(t.Context(), f, nil); !errors.As(err, &e) || e.Want == e.Got || f.SHA256 == "" && !strings.Contains(err.Error(), "sha512 is "+longDigest(data)) {
				t.Errorf("Get(%+v) = %v; want a *MismatchError", f, err)
			}
		}
		if _, _, err := c.Get(t.Context(), File{URL: url, SHA512: longDigest(data)}, nil); err != nil {
			t.Error(err)
		}
		require.NoError(t, os.Remove(c.Store.Path(digest(data))))
	}
	for _, f := range []File{{}, {SHA512: "x"}, {SHA512: strings.ToUpper(longDigest(data))}, {SHA256: digest(data), SHA512: "x"}, {SHA256: longDigest(data)}} {
		f.URL = srv.URL
		if _, _, err := c.Get(t.Context(), f, nil); err == nil {
			t.Errorf("Get(%+v) was accepted", f)
		}
	}
}
