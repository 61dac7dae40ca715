package fetch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range 2 { // the second time it exists already
		w := require.Value(s.Create())(t)
		for _, part := range []string{"hello ", "world"} {
			require.Value(w.Write([]byte(part)))(t)
		}
		for range 2 { // a second Commit returns the same
			sum, size, err := w.Commit()
			if err != nil || sum != digest([]byte("hello world")) || size != 11 {
				t.Errorf("Commit() = %q, %d, %v", sum, size, err)
			}
		}
		assert.NoErrorf(t, w.Close(), "Close after Commit")
		assert.ErrorIsf(t, assert.Err(w.Write([]byte("x"))), fs.ErrClosed, "Write after Commit")
	}
	sum := digest([]byte("hello world"))
	f := require.Value(s.Open(sum))(t)
	assert.NoError(t, f.Close())
	if fi, err := os.Stat(s.Path(sum)); err != nil || fi.Mode().Perm() != 0o444 {
		t.Errorf("blob: %v, %v; want mode 0444", fi, err)
	}
	checkEmpty(t, s, tmpDir)
}

func TestWriterClose(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	w := require.Value(s.Create())(t)
	require.Value(w.Write([]byte("x")))(t)
	for range 2 {
		assert.NoErrorf(t, w.Close(), "Close")
	}
	if _, _, err := w.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit after Close = %v; want fs.ErrClosed", err)
	}
	checkEmpty(t, s, tmpDir)
	checkEmpty(t, s, blobsDir)
}

func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := content(100_000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := OpenStore(dir) // sweeps while others write
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				w, err := s.Create()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := w.Write(data); err != nil {
					t.Error(err)
				}
				if _, _, err := w.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := require.Value(OpenStore(dir))(t)
	if !s.Has(digest(data)) {
		t.Error("the content is not there")
	}
	checkEmpty(t, s, tmpDir)
}

func TestPathStaysInside(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, name := range []string{"", "..", "../../etc/passwd", digest(nil)[:63], digest(nil) + "0", "ABCDEF" + digest(nil)[6:]} {
		if got := s.Path(name); got != "" {
			t.Errorf("Path(%q) = %q; want none", name, got)
		}
		if s.Has(name) {
			t.Errorf("Has(%q)", name)
		}
		assert.ErrorIsf(t, assert.Err(s.Open(name)), fs.ErrInvalid, "Open(%q)", name)
	}
	assert.ErrorIsf(t, assert.Err(s.Open(digest(nil))), fs.ErrNotExist, "Open(missing)")
}

func TestSweep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	w := require.Value(s.Create())(t)
	defer w.Close() //nolint:errcheck // a test
	dead := filepath.Join(s.dir, tmpDir, "dead")
	fresh, old := filepath.Join(s.dir, partialDir, "fresh"), filepath.Join(s.dir, partialDir, "old")
	for _, path := range []string{dead, fresh, old} {
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	past := time.Now().Add(-partialLife - time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	require.Value(OpenStore(s.dir))(t)
	for path, want := range map[string]bool{dead: false, old: false, fresh: true, w.file.Name(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("after OpenStore, %s exists: %v; want %v", path, err == nil, want)
		}
	}
	if _, _, err := w.Commit(); err != nil {
		t.Errorf("Commit after another process swept: %v", err)
	}
}

func TestOpenStoreFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Errorf(t, assert.Err(OpenStore(file)), "OpenStore of a file succeeded")
}
